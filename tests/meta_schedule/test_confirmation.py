"""The best candidates are timed again, and the database of the best has the winners."""

import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from quick_network_tuning import instant, tune, tune_operator
from quick_tuning import timed
from unoptimized import cpu

from autotvm_opevo.meta_schedule import as_target, measurer, open_database, store
from autotvm_opevo.meta_schedule.database import commit, workload_key
from autotvm_opevo.meta_schedule.measurer import Measurer
from autotvm_opevo.meta_schedule.store import TrialStore
from autotvm_opevo.tuning import run
from autotvm_opevo.tuning.logs import BEST_DATABASE
from autotvm_opevo.tuning.race import confirm
from autotvm_opevo.tuning.run_log import RunLog


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    """A matrix product with eight trials, not confirmed."""
    folder = tmp_path_factory.mktemp("matmul")
    tune_operator(folder, 8, **instant())
    return folder


@pytest.fixture
def folder(tuned, tmp_path):
    """A copy of its work directory."""
    return Path(shutil.copytree(tuned, tmp_path / "copy"))


@pytest.fixture
def records(tuned):
    found = sorted(
        open_database(tuned).get_all_tuning_records(),
        key=lambda record: float(np.mean(list(map(float, record.run_secs)))),
    )
    return [timed(one, 1.0) for one in found]


class Runner:
    """Seconds by the number in an artifact, at first and when it is timed again; None for a
    failure.
    """

    def __init__(self, first, again=()):
        self.first, self.again, self.ran = first, again, []

    def run(self, inputs):
        numbers = [int(Path(one.artifact_path).read_text()) for one in inputs]
        latencies = self.again if self.ran else self.first
        self.ran += numbers
        return [self.result(latencies[i]) for i in numbers]

    def result(self, latency):
        seconds, error = (None, "failed") if latency is None else ([latency], None)
        return SimpleNamespace(result=lambda: SimpleNamespace(run_secs=seconds, error_msg=error))


class Builder:
    """Artifacts are files with a number, in a folder of their own."""

    def __init__(self, folder, failing=()):
        self.folder, self.failing = folder, failing

    def build(self, inputs):
        found = []
        for i in range(len(inputs)):
            artifact = self.folder / str(i) / "library.tar"
            artifact.parent.mkdir(parents=True)
            artifact.write_text(str(i))
            failed = i in self.failing
            found.append(
                SimpleNamespace(
                    artifact_path=None if failed else str(artifact),
                    error_msg="failed" if failed else None,
                )
            )
        return found


def confirmed(records, builder, runner):
    """Measure candidates, and let those that are kept race; returns the winner's trace and its
    race, and what was kept.
    """
    task = SimpleNamespace(dispatched=[records[0].workload.mod])
    candidates = [one.as_measure_candidate() for one in records]
    with Measurer(builder, runner, cpu(), 8) as measuring:
        assert len([trial.result() for trial in measuring.submit(task, candidates)]) == len(records)
        kept = measuring.finalists.of(workload_key(task.dispatched[0]))
        for _, race in confirm([kept], measuring, 60):
            return str(kept[race.fastest].trial.candidate.sch.trace), race, kept
    return None, None, kept


def test_what_was_built_for_the_best_is_kept_and_times_them_again(records, tmp_path):
    built = tmp_path / "built"
    running = Runner([1.0, 1.1, 1.2, 1.3, 1.4, 1.45, 1.5], [3.0, 1.0, 2.0, 4.0, 5.0])
    winner, race, kept = confirmed(records[:7], Builder(built), running)
    assert winner == str(records[1].trace)
    assert (len(kept), race.seconds(race.fastest)) == (5, [1.0] * 5)
    assert not any(path.is_file() for path in built.rglob("*"))
    assert not any(os.path.exists(one.file) for one in kept)


def test_what_is_out_of_reach_of_noise_is_not_timed_again(records, tmp_path):
    *_, kept = confirmed(records[:3], Builder(tmp_path), Runner([1.0, 1.4, 1.6], [1.0, 1.0]))
    assert [one.seconds for one in kept] == [1.0, 1.4]


def test_each_round_on_a_cpu_has_memory_of_its_own(records, tmp_path, monkeypatch):
    closed = []

    class Local(Runner):
        def close(self):
            closed.append(len(self.ran))

        def interrupt(self):
            pass

        def run_alone(self, artifact, device_type, args_info):
            (future,) = self.run([SimpleNamespace(artifact_path=artifact)])
            return future.result().run_secs, None

    monkeypatch.setattr(measurer, "LocalRunner", Local)
    confirmed(records[:3], Builder(tmp_path), Local([1.0] * 3, [1.0] * 3))
    assert closed == [3, 6, 9, 12, 15, 18]  # the last one when all have ended


def test_what_fails_does_not_win(records, tmp_path):
    failing = Runner([1.0, None, 1.1, 1.2], [None, None, None, 2.0])
    winner, _, kept = confirmed(records[:4], Builder(tmp_path / "some", failing=[2]), failing)
    assert (winner, len(kept)) == (str(records[3].trace), 2)
    assert (
        confirmed(records[:2], Builder(tmp_path / "all"), Runner([1.0, 1.0], [None, None]))[0]
        is None
    )


def write_best(folder, record):
    """As the best of its task, in place of the one before."""
    store = TrialStore(folder)
    store.set_best(record)
    store.write_best()


def test_the_best_replace_those_of_an_earlier_call(folder, records):
    files = {BEST_DATABASE, *(file.name for file in folder.iterdir())}
    for record in records[:2]:
        write_best(folder, record)
        (found,) = open_database(folder / BEST_DATABASE).get_all_tuning_records()
        assert str(found.trace) == str(record.trace)
    assert {file.name for file in folder.iterdir()} == files


def test_the_best_of_an_earlier_call_stay_where_new_ones_cannot_be_written(
    folder, records, monkeypatch
):
    monkeypatch.setattr(store, "commit", lambda *_: None)  # as TVM does on a full disk
    with pytest.raises(OSError, match="make room on its disk"):
        write_best(folder, records[1])
    (found,) = open_database(folder / BEST_DATABASE).get_all_tuning_records()
    assert str(found.trace) == str(records[0].trace)


def test_without_the_number_of_trials_that_were_known_then_the_fastest_of_all_is(folder):
    """As in a work directory of an earlier version."""
    before = tune_operator(folder, 8).latency
    (folder / BEST_DATABASE / "trials").write_text("")
    result = tune_operator(folder, 8)
    assert (result.measured, result.latency) == (0, before)


def test_the_best_for_another_target_is_kept(folder, records):
    slowest, other = records[-1], as_target("llvm -num-cores=64")
    foreign = timed(slowest, 1e-12, other)
    commit(open_database(folder), foreign)
    write_best(folder, foreign)
    assert tune_operator(folder, 8).latency > 1e-12
    latencies = [
        float(one.run_secs[0])
        for one in open_database(folder / BEST_DATABASE).get_all_tuning_records()
    ]
    assert len(latencies) == 2
    assert 1e-12 in latencies


def test_a_kill_while_the_best_are_replaced_costs_none(folder, records):
    slowest = records[-1]
    confirmed = timed(slowest, 1e-12)
    write_best(folder, confirmed)
    (folder / BEST_DATABASE).rename(folder / f"{BEST_DATABASE}.old")
    assert tune_operator(folder, 8).latency == 1e-12
    assert not (folder / f"{BEST_DATABASE}.old").exists()


def test_a_network_without_a_best_before_gets_the_fastest_of_its_trials(folder, records):
    """So did versions that kept the best of the last network only."""
    key = workload_key(records[0].workload.mod), str(records[0].target)
    TrialStore(folder).write_best(left_out={key})
    tune_operator(folder, 8)
    assert len(open_database(folder / BEST_DATABASE)) == 1


@pytest.mark.soak
def test_the_best_of_tvm_s_own_search_with_packed_weights_are_confirmed(tmp_path, monkeypatch):
    """Their traces transform layouts, which TVM cannot write as JSON from Python."""
    monkeypatch.setattr(run, "CONFIRMATION_SHARE", 100.0)
    result = tune(tmp_path, 16, strategy="evolutionary", cost_model="random", evaluate=False)
    assert RunLog(tmp_path / "journal").runs.confirmed
    assert result.best_file == tmp_path / BEST_DATABASE
