"""The contract of every adapter's `tune_network`, with the TVM that is installed.

Most latencies are made up by these tests, which takes no process; some trials run.
"""

import os
import random
import re
import resource
import signal
import threading
import time
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from math import inf
from statistics import median

import psutil
import pytest
from adapter import PATIENCE, made_up, workers
from compared_networks import time_two_rounds

from autotvm_opevo._utils.atomic_files import LogInUse
from autotvm_opevo.reporting.logs import open_logs
from autotvm_opevo.tuning import run
from autotvm_opevo.tuning.run_log import BestConfirmed, RunEnded, read

# `make test` ends a run by the first one.
if find_spec("tvm.autotvm"):
    from autotvm_adapter import AutoTVM as Adapter

    SIGNALS = signal.SIGTERM, signal.SIGINT
else:
    from meta_schedule_adapter import MetaSchedule as Adapter

    SIGNALS = signal.SIGINT, signal.SIGTERM


@pytest.fixture(scope="module", params=[Adapter], ids=[Adapter.__name__])
def kind(request):
    """The adapter that the TVM has."""
    return request.param


@pytest.fixture
def adapter(kind, tmp_path):
    """One with a folder; and a check that it leaves this process as it was, and no lock."""
    # Ctrl-C as in a terminal: a shell lets what it starts in the background ignore it
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    adapter = kind(tmp_path)
    before = process_state(adapter)
    yield adapter
    psutil.wait_procs(workers() - before["workers"], timeout=10)  # one that was just starting
    after = process_state(adapter)
    signal.signal(signal.SIGINT, handler)
    for what in ("files", "workers"):  # those of the test before may have ended only now
        assert after.pop(what) <= before.pop(what)
    assert after == before
    assert not any("lock" in name for name in adapter.files())


def process_state(adapter):
    """Settings, open files and child processes."""
    files = {file.path for file in psutil.Process().open_files()}
    return {
        "TVM": adapter.global_state(),
        "cores": os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None,
        "handler": signal.getsignal(signal.SIGINT),
        "files": {path for path in files if path.startswith(str(adapter.folder))},
        "workers": workers(),
    }


@pytest.fixture(scope="module")
def tuned(kind, tmp_path_factory):
    """The small network with eight trials that ran, the best of which were timed again; and the
    result.
    """
    adapter = kind(tmp_path_factory.mktemp("tuned"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "CONFIRMATION_SHARE", 1.0)
        return adapter, adapter.tune(8, seconds=None)


@pytest.fixture
def copy(adapter, tuned):
    """A copy of what was tuned."""
    return tuned[0].copy(adapter.folder)


@contextmanager
def at_trial(number, adapter, act):
    """Act, in another thread, once so many trials have been written."""

    def wait():
        adapter.wait_for(number)
        act()

    thread = threading.Thread(target=wait)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def interrupt(*_):
    """Ctrl-C, while this thread is busy."""
    os.kill(os.getpid(), signal.SIGINT)
    if threading.current_thread() is threading.main_thread():
        time.sleep(PATIENCE)


def fail(*_):
    raise ValueError("no device answers")


@contextmanager
def file_size_limit(size):
    """Stands in for a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def assert_resumes(adapter, known, trials, **options):
    """Tune with so many trials: those that are known are not measured again."""
    result = adapter.tune(trials, **options)
    assert (result.trials, result.measured) == (trials, trials - known)
    measured = adapter.configurations()
    assert len(measured) == len(set(measured)) == trials
    return result


class TestBudget:
    @pytest.mark.parametrize(
        "task_scheduler",
        ["gradient", *(pytest.param(s, marks=pytest.mark.soak) for s in ("equal", "round-robin"))],
    )
    def test_each_call_spends_what_is_left_on_new_configurations(self, adapter, task_scheduler):
        known = 0
        for trials in (1, 7, 24):
            result = assert_resumes(adapter, known, trials, task_scheduler=task_scheduler)
            known = trials
            assert result.stop_reason == "trials"
            assert sum(row.trials for row in result.rows) == trials
            assert all(row.trials for row in result.rows) or trials == 1
            before = adapter.records.read_bytes()
        assert assert_resumes(adapter, known, known).latency == result.latency
        assert adapter.records.read_bytes() == before

    def test_the_same_seed_and_latencies_give_the_same_trials(self, adapter, tmp_path):
        other = type(adapter)(tmp_path / "other")
        other.folder.mkdir()
        for one in (adapter, other):
            # the gradient also depends on how long trials take
            assert_resumes(one, 0, 24, seed=3, task_scheduler="equal", transfer=True)
        assert adapter.configurations() == other.configurations()

    def test_it_ends_when_all_spaces_are_exhausted(self, adapter):
        first = adapter.tune(1000, "tiny")
        assert first.stop_reason == "exhausted"
        again = assert_resumes(adapter, first.trials, first.trials, network="tiny")
        assert again.stop_reason == "trials"
        assert adapter.tune(1000, "tiny").measured == 0

    def test_a_task_scheduler_must_return_an_active_task(self, adapter):
        choices = iter([0, -1])
        with pytest.raises(ValueError, match="the position of an active task, -1 returned"):
            adapter.tune(40, task_scheduler=lambda *_: next(choices))
        assert 1 <= len(adapter.configurations()) < 40
        assert adapter.bests() == adapter.fastest()

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"trials": 0}, "trials must be an integer of at least 1, 0 given"),
            ({"seed": -1}, "seed must be an integer of at least 0, -1 given"),
            ({"time_limit": 0}, "time_limit must be a positive number of seconds, 0 given"),
            (
                {"task_scheduler": "fair"},
                "task_scheduler must be one of gradient, equal, round-robin, or a function; "
                "'fair' given",
            ),
        ],
    )
    def test_invalid_arguments_are_refused_before_anything_is_created(
        self, adapter, options, message
    ):
        with pytest.raises(ValueError, match=message):
            adapter.tune(**{"trials": 4, **options})
        assert os.listdir(adapter.folder) == []


class TestTimeLimit:
    def test_what_was_measured_until_then_counts(self, adapter, capfd):
        end = time.monotonic() + 8

        def seconds(number):
            if number == 11:
                time.sleep(max(0.0, end - time.monotonic()))
            return made_up(number)

        result = adapter.tune(1000, seconds=seconds, time_limit=8)
        assert result.stop_reason == "time limit"
        assert 12 <= result.trials < 30
        left = re.findall(r"(\d\d:\d\d) left", capfd.readouterr().err)
        assert "00:00" <= min(left) <= max(left) <= "00:08"
        again = assert_resumes(adapter, result.trials, result.trials + 1, time_limit=3600)
        assert again.stop_reason == "trials"

    def test_what_is_built_then_is_not_waited_for(self, copy):
        result = copy.tune(1000, seconds=None, time_limit=2)
        assert result.stop_reason == "time limit"
        assert result.seconds < PATIENCE / 2
        assert_resumes(copy, result.trials, result.trials + 1)


class TestTuned:
    def test_every_task_is_tuned_within_the_limits_of_this_machine(self, tuned):
        adapter, result = tuned
        assert (result.trials, result.measured, result.stop_reason) == (8, 8, "trials")
        assert len(set(adapter.configurations())) == len(adapter.configurations()) == 8
        assert all(row.works and row.bound > 0 for row in result.rows)
        assert 0 < result.bound <= result.latency
        assert f"log: {adapter.log}\nbest: {result.best_file}" in str(result)
        assert result.best_file in (adapter.best, adapter.best.parent)

    def test_the_best_have_the_latencies_of_when_they_were_timed_again(self, tuned):
        adapter, result = tuned
        confirmed = [one for one in read(adapter.run_log) if isinstance(one, BestConfirmed)]
        assert confirmed
        best = sorted(adapter.bests().values())
        assert all(
            any(median(one.latencies) == pytest.approx(latency) for latency in best)
            for one in confirmed
        )
        assert best == pytest.approx(sorted(row.latency for row in result.rows))

    def test_tvm_takes_the_best_of_every_task(self, tuned):
        adapter, result = tuned
        assert adapter.applied() == len(adapter.bests()) == len(result.rows)

    def test_the_best_stay_unless_a_later_trial_is_faster(self, copy, tuned):
        before, latency = copy.bests(), tuned[1].latency
        for known, trials in ((8, 8), (8, 16)):
            slower = {"seconds": lambda number: 1e3, "task_scheduler": "equal"}
            assert assert_resumes(copy, known, trials, **slower).latency == latency
            assert copy.bests() == before
        assert_resumes(copy, 16, 24, seconds=lambda number: 1e-12, task_scheduler="equal")
        assert {*copy.bests().values()} == {1e-12}

    def test_the_best_stay_when_another_network_is_tuned(self, copy):
        before = copy.bests()
        copy.tune(4, "other", transfer=True)
        both = copy.bests()
        assert before.items() < both.items()
        others = both.items() - before.items()
        copy.tune(16, seconds=lambda number: 1e-12)
        assert others <= copy.bests().items()
        assert both.keys() == copy.bests().keys()
        (log,) = open_logs([copy.log])
        assert (len(log), len(log.runs.networks)) == (20, 2)

    def test_the_run_log_has_the_time_of_every_trial_and_phase(self, tuned):
        adapter, result = tuned
        (log,) = open_logs([adapter.log])
        tasks = log.tasks.values()
        assert sorted(len(task.elapsed) for task in tasks) == sorted(
            row.trials for row in result.rows
        )
        assert {key for keys in log.runs.networks[-1] for key in keys} == {
            task.run_log_key for task in tasks
        }
        assert log.runs.tuners[0].endswith(", seed 0")
        assert {*log.runs.phases} == {
            "starting",
            "searching",
            "building",
            "running",
            "re-measuring",
        }
        assert sum(result.phases.values()) == pytest.approx(result.seconds, abs=0.1)

    def test_the_network_is_compared_with_the_untuned_one(self, copy, monkeypatch):
        time_two_rounds(monkeypatch)
        result = copy.tune(8, seconds=None, evaluate=True)
        assert result.comparison.outputs_match
        assert "outputs match" in str(result)
        assert result.bound > 0  # as the earlier call measured it
        (log,) = open_logs([copy.log])
        assert log.runs.latency == tuple(
            pytest.approx(result.comparison.race.latency(i).value) for i in (0, 1)
        )


class TestBest:
    def test_it_is_the_fastest_trial_of_each_task(self, adapter):
        result = adapter.tune(12)
        assert adapter.bests() == adapter.fastest()
        assert sorted(adapter.bests().values()) == sorted(row.latency for row in result.rows)

    def test_where_all_trials_fail_there_is_none(self, adapter):
        result = adapter.tune(4, seconds=lambda number: None, evaluate=True)
        assert result.trials == 4
        assert not any(row.works for row in result.rows)
        assert (result.comparison, result.comparison_error) == (None, "")
        assert "all of them failed, mostly: this one fails" in str(result)
        assert not adapter.best.exists() or adapter.bests() == {}
        (log,) = open_logs([adapter.log])
        messages = [message for task in log.tasks.values() for message in task.messages.values()]
        assert [{*found} for found in messages] == [{"this one fails"}] * len(log.tasks)

    def test_those_of_all_networks_are_found_again_if_the_file_is_lost(self, adapter):
        adapter.tune(8)
        adapter.best.unlink()
        adapter.tune(4, "other")
        assert adapter.bests() == adapter.fastest()

    @pytest.mark.parametrize(("earlier", "stays"), [(1e-12, True), (1e3, False)])
    def test_that_of_an_earlier_call_is_replaced_by_a_faster_trial_only(
        self, adapter, earlier, stays, monkeypatch
    ):
        """It is not there to be timed again, and must not lose against what is."""
        monkeypatch.setattr(run, "CONFIRMATION_SHARE", 1e3)
        equal = {"task_scheduler": "equal"}
        adapter.tune(2, "other", seconds=lambda number: earlier, **equal)
        result = adapter.tune(6, "other", seconds=None, **equal)
        assert all((latency == earlier) == stays for latency in adapter.bests().values())
        assert (result.latency == earlier) == stays
        confirmed = [one for one in read(adapter.run_log) if isinstance(one, BestConfirmed)]
        assert bool(confirmed) != stays


class TestFiles:
    def test_a_record_that_a_power_cut_has_torn_is_measured_again(self, adapter):
        adapter.tune(12)
        before = adapter.records.read_bytes()
        adapter.records.write_bytes(before[:-40])
        known = adapter.records.read_bytes().count(b"\n")
        assert known == 11
        assert_resumes(adapter, known, 12)
        assert adapter.records.read_bytes().splitlines()[:11] == before.splitlines()[:11]

    def test_a_torn_file_of_the_best_is_no_error(self, adapter):
        adapter.tune(8)
        before = adapter.bests()
        with open(adapter.best, "a") as file:
            file.write('[3, [[["torn')
        result = assert_resumes(adapter, 8, 8)
        assert all(row.works for row in result.rows)
        assert adapter.bests() == before

    def test_a_second_call_is_refused_while_one_runs(self, adapter):
        refused = []

        def seconds(number):
            with pytest.raises(LogInUse, match=f"pid {os.getpid()}") as caught:
                adapter.tune(4)
            refused.append(caught.value)
            return made_up(number)

        assert adapter.tune(2, seconds=seconds).trials == len(refused) == 2


class TestFullDisk:
    def test_it_is_found_before_anything_is_measured(self, adapter):
        measured = []
        with (
            file_size_limit(1000),
            pytest.raises(OSError, match="cannot write here: File too large"),
        ):
            adapter.tune(4, seconds=measured.append)
        assert (measured, adapter.files()) == ([], [])

    # for no record, and for a part of one
    @pytest.mark.parametrize("room", [0, 100])
    def test_it_ends_the_call_and_costs_no_trial(self, adapter, room):
        """TVM does not say when it could not write a record."""
        before = resource.getrlimit(resource.RLIMIT_FSIZE)

        def seconds(number):
            size = adapter.records.stat().st_size if adapter.records.exists() else 0
            if size > 20_000:  # pytest writes what is printed into files, too
                resource.setrlimit(resource.RLIMIT_FSIZE, (size + room, before[1]))
            return made_up(number)

        with file_size_limit(resource.RLIM_INFINITY), pytest.raises(OSError, match="make room"):
            adapter.tune(200, seconds=seconds)
        known = adapter.records.read_bytes().count(b"\n")
        assert known > 4
        assert_resumes(adapter, known, known + 4)
        assert adapter.bests() == adapter.fastest()


class TestInterrupts:
    @pytest.mark.parametrize(
        ("act", "error", "reason"),
        [(fail, ValueError, "ValueError"), (interrupt, KeyboardInterrupt, "interrupted")],
    )
    def test_an_error_prints_the_result_and_costs_no_trial(
        self, adapter, capfd, act, error, reason
    ):
        with pytest.raises(error):
            adapter.tune(40, seconds=lambda number: act() if number == 9 else made_up(number))
        known = len(adapter.configurations())
        assert known >= 4
        assert f"{known} trials, {known} of them now in" in capfd.readouterr().err
        assert [one.stop_reason for one in read(adapter.run_log) if isinstance(one, RunEnded)] == [
            reason
        ]
        assert adapter.bests() == adapter.fastest()
        assert_resumes(adapter, known, known + 4)

    def test_ctrl_c_ends_builds_and_runs(self, adapter, capfd):
        with (
            at_trial(3, adapter, interrupt),
            pytest.raises(KeyboardInterrupt),
        ):
            adapter.tune(1000, seconds=None)
        assert "ended by: interrupted" in capfd.readouterr().err
        known = len(adapter.configurations())
        assert_resumes(adapter, known, known + 2)

    def test_ctrl_c_while_the_best_are_timed_again_costs_no_result(self, adapter, monkeypatch):
        monkeypatch.setattr(run, "CONFIRMATION_SHARE", 1.0)
        monkeypatch.setattr(adapter.measurer, "retime", interrupt)
        with pytest.raises(KeyboardInterrupt):
            adapter.tune(3, "other", seconds=None)
        assert adapter.bests() == adapter.fastest()
        assert_resumes(adapter, 3, 3, network="other")

    def test_an_error_while_the_best_are_timed_again_costs_no_result(
        self, adapter, monkeypatch, caplog
    ):
        monkeypatch.setattr(run, "CONFIRMATION_SHARE", 1.0)
        monkeypatch.setattr(adapter.measurer, "retime", fail)
        assert_resumes(adapter, 0, 3, network="other", seconds=None)
        assert "the best trials were not re-measured: no device answers" in caplog.text
        assert adapter.bests() == adapter.fastest()

    @pytest.mark.parametrize(
        "number", [SIGNALS[0], pytest.param(SIGNALS[1], marks=pytest.mark.soak)]
    )
    def test_a_signal_prints_the_result_and_exits_with_130(self, adapter, number):
        process = adapter.start(1000)
        for line in process.stderr:
            if "trials, network" in line:
                break
        others = psutil.Process(process.pid).children(recursive=True)
        assert others
        if number == signal.SIGINT:  # of a terminal, all get it
            os.killpg(process.pid, number)
        else:  # of a job scheduler: all processes of the job, and the group
            for one in [*others, process]:
                with suppress(psutil.NoSuchProcess):
                    one.send_signal(number)
            os.killpg(process.pid, number)
        _, errors = process.communicate(timeout=PATIENCE)
        assert process.returncode == 130, errors
        assert "ended by: interrupted" in errors
        assert "Traceback" not in errors
        assert psutil.wait_procs(others, timeout=PATIENCE)[1] == []
        known = len(adapter.configurations())
        assert 1 <= known < 1000
        assert {path.name for path in (adapter.best, adapter.records)} <= {*adapter.files()}


class TestKilling:
    @pytest.mark.parametrize("kills", [1, pytest.param(10, marks=pytest.mark.soak)])
    def test_after_sigkill_no_trial_is_lost_and_no_process_stays(self, adapter, kills):
        """Once at work, or at any moment."""
        rng, before = random.Random(kills), []
        for _ in range(kills):
            process = adapter.start(1000)
            if kills == 1:
                adapter.wait_for(2)
            else:
                time.sleep(rng.uniform(2, 14))
            others = psutil.Process(process.pid).children(recursive=True)
            process.kill()
            _, errors = process.communicate(timeout=PATIENCE)
            assert "Error" not in errors
            assert psutil.wait_procs(others, timeout=PATIENCE)[1] == []
            lines = adapter.records.read_bytes().split(b"\n") if adapter.records.exists() else []
            assert lines[: len(before)] == before
            before = lines[:-1]  # which are complete
        assert len(before) < 24 or kills > 1  # not a round, after which TVM alone would write
        assert_resumes(adapter, len(before), len(before) + 4, network="other")

    def test_a_worker_that_is_killed_fails_its_trial_alone(self, adapter):
        """As by the kernel, when memory runs out."""
        killed = []

        def kill():
            for worker in workers():
                worker.kill()
                killed.append(worker)

        with at_trial(3, adapter, kill):
            result = assert_resumes(adapter, 0, 16, seconds=None)
        assert killed
        failed = [trial for trial in adapter.trials() if trial.latency == inf]
        assert len(failed) <= len(killed)
        assert all(row.works for row in result.rows)
