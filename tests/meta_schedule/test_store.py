"""The store of a work directory's trials: which record is the best of its task, and how records are
told apart.
"""

from types import SimpleNamespace

import numpy as np
import pytest
import tvm
from quick_tuning import timed, tune
from sketches import AVX512, decisions_of, int8_matmul
from tvm.s_tir.meta_schedule.database import TuningRecord
from tvm.s_tir.meta_schedule.runner import RunnerResult
from unoptimized import cpu

from autotvm_opevo.lowering.entry import bind_params
from autotvm_opevo.lowering.network import lower
from autotvm_opevo.meta_schedule import open_database
from autotvm_opevo.meta_schedule.database import workload_key
from autotvm_opevo.meta_schedule.measurer import Trial
from autotvm_opevo.meta_schedule.store import TrialStore
from autotvm_opevo.meta_schedule.tasks import extract
from autotvm_opevo.networks import relax as workloads
from autotvm_opevo.tuning.record_lines import UNMEASURED, seconds


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    """A work directory with three trials of one task."""
    folder = tmp_path_factory.mktemp("tuned")
    tune(folder, 3)
    return folder


@pytest.fixture
def records(tuned):
    return list(open_database(tuned).get_all_tuning_records())


def append(store, record, *latencies):
    """Append a trial of a record's candidate; without latencies, one that failed."""
    result = RunnerResult(list(latencies) or None, None if latencies else "no such device")
    store.append(
        task_of(record),
        Trial(record.as_measure_candidate(), result, "" if latencies else "run", 1.0),
    )


def task_of(record):
    mod = record.workload.mod
    return SimpleNamespace(mod=mod, target=record.target, key=workload_key(mod))


def best(store, record):
    """Latency and trace of a task's best."""
    found = store.best(task_of(record))
    return (seconds(found.run_secs), str(found.trace)) if found else None


class TestBest:
    def test_without_a_confirmed_one_it_is_the_fastest_that_succeeded(self, tmp_path, records):
        store = TrialStore(tmp_path)
        append(store, records[0])
        assert best(store, records[0]) is None
        append(store, records[1], 2.0)
        append(store, records[2], 1.0, 2.0)
        assert best(store, records[0]) == (1.5, str(records[2].trace))

    @pytest.mark.parametrize("reopened", [False, True])
    def test_what_was_timed_again_stays_it_unless_a_later_trial_is_faster(
        self, tmp_path, records, reopened
    ):
        """Also where a clock so coarse that all take the same time cannot tell one trial from
        another.
        """
        store = TrialStore(tmp_path)
        append(store, records[0], 1.0)
        append(store, records[1], 1.0)
        store.set_best(timed(records[1], 1.5))
        store.write_best()
        if reopened:
            store = TrialStore(tmp_path)
        assert best(store, records[0]) == (1.5, str(records[1].trace))
        append(store, records[2], 1.0)
        if reopened:  # as after a kill: the best were not written
            store = TrialStore(tmp_path)
        assert best(store, records[0]) == (1.0, str(records[2].trace))

    def test_what_was_chosen_without_a_trial_is_it_until_there_is_one(self, tmp_path, records):
        store = TrialStore(tmp_path)
        store.set_best(timed(records[0], UNMEASURED))
        assert best(store, records[0]) == (float("inf"), str(records[0].trace))
        append(store, records[0])  # it fails
        assert best(store, records[0]) is None

    def test_tasks_that_are_left_out_have_none_in_the_file(self, tmp_path, records):
        store = TrialStore(tmp_path)
        append(store, records[0], 1.0)
        store.write_best(left_out={(task_of(records[0]).key, str(records[0].target))})
        assert len(open_database(tmp_path / "best")) == 0
        store.write_best()
        assert len(open_database(tmp_path / "best")) == 1


@pytest.mark.parametrize("room", [0, 100])
def test_a_workload_for_which_the_disk_has_no_room_ends_the_call(
    tmp_path, records, monkeypatch, room
):
    """TVM does not say when it could not write a line, or a part of one only."""
    store = TrialStore(tmp_path)
    commit, file = type(store.database).commit_workload, tmp_path / "database_workload.json"

    def cut(database, mod):
        workload, line = commit(database, mod), file.read_bytes()
        file.write_bytes(line[:room])
        return workload

    monkeypatch.setattr(type(store.database), "commit_workload", cut)
    with pytest.raises(OSError, match="make room on its disk"):
        append(store, records[0], 1.0)
    monkeypatch.undo()
    store = TrialStore(tmp_path)
    append(store, records[0], 1.0)
    assert best(TrialStore(tmp_path), records[0]) == (1.0, str(records[0].trace))


def packed():
    """A matrix product of an MLP, whose schedules pack the weights."""
    tasks, _ = extract(lower(bind_params(*workloads.mlp()), cpu()), cpu())
    return next(task.dispatched[0] for task in tasks if "matmul" in str(task.task_name))


@pytest.mark.parametrize(
    ("workload", "target", "kinds"),
    [
        (packed, cpu(), {"SamplePerfectTile", "SampleCategorical", "Annotate", "TransformLayout"}),
        (
            lambda: tvm.IRModule({"main": int8_matmul()}),
            AVX512,
            {"SamplePerfectTile", "Annotate", "Tensorize"},
        ),
    ],
)
def test_a_record_s_trace_is_printed_the_same_after_it_is_loaded_again(
    tmp_path, workload, target, kinds
):
    """So it tells configurations apart. From Python, those that transform layouts cannot be written
    as JSON.
    """
    mod = workload()
    decisions, rng = decisions_of(mod, target), np.random.default_rng(0)
    database, printed, found = open_database(tmp_path), {}, set()
    while len(printed) < 4:
        candidate, _ = decisions.candidate(decisions.canonicalize(decisions.space.sample(rng)))
        if candidate is not None:
            trace, latency = candidate.sch.trace, 1.0 + len(printed)
            found |= {str(instruction.kind.name) for instruction in trace.insts}
            printed[latency] = str(trace)
            workload = database.commit_workload(mod)
            database.commit_tuning_record(
                TuningRecord(trace, workload, [latency], target, candidate.args_info)
            )
    assert found >= kinds
    loaded = open_database(tmp_path).get_all_tuning_records()
    assert {float(record.run_secs[0]): str(record.trace) for record in loaded} == printed
    assert len({*printed.values()}) == len(printed)
