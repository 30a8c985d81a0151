"""A run: what it measures, announces, writes to the run log and returns, whatever TVM measures."""

import io
import json
import math
import sys
from concurrent.futures import Future
from contextlib import suppress
from types import SimpleNamespace

import numpy as np
import pytest
from compared_networks import compared

from autotvm_opevo.tuning.measurer import Measurer
from autotvm_opevo.tuning.race import Race
from autotvm_opevo.tuning.result import UNLIMITED, ProgressDisplay
from autotvm_opevo.tuning.run import Budget, TuningRun
from autotvm_opevo.tuning.run_log import BestConfirmed, OutputsDiffered, RunLog, read
from autotvm_opevo.tuning.task_scheduler import Operator, TaskProgress, equal
from autotvm_opevo.tuning.task_state import TaskState


class Task(TaskState):
    """Proposes numbers, whose latencies are 1 / number."""

    best, can_propose = "earlier", True

    def __init__(self, name, trials, latency, size=1000):
        super().__init__(name, name, name[0], TaskProgress(flop=1e6, trials=trials))
        self.latency = latency
        self.left, self.finished = range(trials + 1, size + 1), []

    def _propose(self, size, others):
        proposed, self.left = self.left[:size], self.left[size:]
        return [(self.name, number) for number in proposed]

    def add(self, trial):
        self.progress.pending -= 1
        self._count(trial)

    def finish(self, trials):
        self.finished.append(len(trials))


class Store:
    """Of pairs of a task's name and a trial."""

    def __init__(self, folder):
        self.path, self.run_log, self.trials = folder / "log", RunLog(folder / "journal"), []

    def append(self, task, trial):
        self.trials.append((task.name, trial))


class Run(TuningRun):
    confirmed = written = 0

    _use_confirmed = None

    def _measure_machine(self):
        self.phases["measuring the machine"] = 0.0

    def _confirm(self):
        self.confirmed += 1

    def write_best(self):
        self.written += 1


class Inverter(Measurer):
    """The one measurer of these tests, without a process: a candidate's latency is the inverse of
    its number.
    """

    retime = restart = None

    def __init__(self, fails_at=math.inf):
        super().__init__(batch=2, builds=1, devices=1)
        self.candidates, self._fails_at = [], fails_at

    def __exit__(self, *_):
        self._close(lambda: None)

    def submit(self, task, candidates):
        assert [name for name, _ in candidates] == [task] * len(candidates)
        return [self._invert(*candidate) for candidate in candidates]

    def _invert(self, task, number):
        trial = Future()
        if len(self.candidates) >= self._fails_at:
            trial.set_exception(KeyboardInterrupt())
        else:
            self.candidates.append((task, number))
            trial.set_result(1 / number)
        return trial


class Busy(Inverter):
    """Has 64 builders, which end no build or all at once, and ends no trial."""

    def __init__(self, devices, builds_end):
        super().__init__()
        Measurer.__init__(self, batch=8, builds=64, devices=devices)
        self._builds_end = builds_end

    def _invert(self, task, number):
        self.candidates.append((task, number))
        trial = Future()
        self._trials.add(trial)
        if not self._builds_end:
            self._building.add(trial)
        return trial


def measure(run, measurer=None, compare=None):
    measurer = measurer or Inverter()
    run.run(lambda: measurer, equal, np.random.default_rng(0), compare)
    return measurer


@pytest.fixture
def screen():
    return io.StringIO()


@pytest.fixture
def run(tmp_path, screen):
    """Two tasks with two of eight trials."""
    tasks = [Task("conv2d", 2, 0.001), Task("dense", 0, math.inf)]
    operators = [Operator(3, (0,)), Operator(1, (1,))]
    run = Run(tasks, operators, Budget(8), 2, Store(tmp_path))
    run.display = ProgressDisplay(8, file=screen)
    return run


def run_log(tmp_path):
    return [json.loads(line) for line in (tmp_path / "journal").read_text().splitlines()]


def test_a_task_begins_with_no_more_trials_than_its_first_round_has(tmp_path):
    tasks = [Task("conv2d", 0, math.inf), Task("pool", 0, math.inf)]
    tasks[1].progress.first_round = 2
    operators = [Operator(1, (0,)), Operator(1, (1,))]
    measurer = Inverter()
    Measurer.__init__(measurer, batch=8, builds=1, devices=1)
    run = Run(tasks, operators, Budget(16), 8, Store(tmp_path))
    run.display = ProgressDisplay(16, file=io.StringIO())
    measure(run, measurer)
    assert [task.finished for task in tasks] == [[8], [2, 6]]


def test_it_announces_the_budget_and_run_logs_the_network(run, tmp_path, screen):
    run.announce("OpEvo, seed 0", "log", ["kept at default: 1"])
    assert (
        "2 tasks, 8 trials, 2 of them in the log; starting to measure\nkept at default: 1"
        in screen.getvalue()
    )
    (start,) = run_log(tmp_path)
    assert start["operators"] == [[3, ["c"]], [1, ["d"]]]
    assert (start["tuner"], start["budget"], start["flop"].keys()) == (
        "OpEvo, seed 0",
        8,
        {"c", "d"},
    )


def test_where_only_the_time_is_limited_it_announces_no_number_of_trials(run, screen):
    run._budget.trials = UNLIMITED
    run.announce("OpEvo", "log", [])
    assert "2 tasks, 2 trials in the log; starting to measure\n" in screen.getvalue()


def test_nothing_is_in_the_run_log_without_trials_left(run, tmp_path):
    run._tasks[1].progress.trials = 6
    run.announce("OpEvo", "log", [])
    assert not (tmp_path / "journal").exists()


def test_the_result_counts_the_trials_of_this_call(run):
    run._tasks[1].progress.trials = 4
    run._tasks[1].failures["run timeout"] = 4
    result = run.result()
    assert (result.trials, result.measured, run.left) == (6, 4, 2)
    assert result.latency == pytest.approx(0.003)
    assert [(row.name, row.share, row.failures) for row in result.rows] == [
        ("conv2d", 1.0, ""),
        ("dense", 0.0, "run timeout 4"),
    ]


def test_the_comparison_with_the_untuned_network_is_in_the_run_log(run, tmp_path):
    run._compare(lambda: compared(0.2, 0.1, noise=0))
    (entry,) = run_log(tmp_path)
    assert (entry["before"], entry["after"]) == (pytest.approx(0.2), pytest.approx(0.1))
    assert entry["speedup"] == pytest.approx([2, 2, 2])
    assert "2.00 times as fast as untuned (2.00 to 2.00)\noutputs match" in str(run.result())


def test_a_network_that_was_timed_once_has_no_interval(run, tmp_path):
    run._compare(lambda: compared(0.2, 0.1, rounds=1))
    assert "as fast as untuned (unknown)\noutputs match" in str(run.result())
    (event,) = read(tmp_path / "journal")
    assert event.speedup == []


def test_a_network_whose_outputs_differ_is_not_timed_and_stays_untuned(run, tmp_path):
    comparison = compared(0.2, 0.1, rounds=0, error=0.5)
    comparison.outputs_match = False
    run._compare(lambda: comparison)
    (event,) = read(tmp_path / "journal")
    assert isinstance(event, OutputsDiffered)
    assert run.untuned
    assert "outputs DIFFER, relative error 5.0e-01: the best file has the untuned network" in str(
        run.result()
    )


def test_the_phases_add_up_to_the_duration_and_the_rest_is_building(run, tmp_path, monkeypatch):
    run._budget.start = 0.0
    monkeypatch.setattr("time.monotonic", iter([10.0, 12.0, 100.0]).__next__)
    with run.phase("searching"):
        pass
    run._measurer = SimpleNamespace(seconds_running=30.0)
    run._end_measuring()
    phases = {"searching": 2.0, "running": 30.0, "building": 68.0}
    assert run.result().phases == phases
    assert run.result().seconds == 100
    (event,) = read(tmp_path / "journal")
    assert (event.phases, event.stop_reason) == (phases, "trials")
    assert "\ntime: building 68 s, running 30 s, searching 2 s\n" in str(run.result())


def test_the_network_s_limit_is_that_of_its_fastest_implementations(run):
    assert run.result().bound == 0  # unknown
    run._tasks[0].bound = 0.0008  # three times of 1 ms
    result = run.result()
    assert result.bound == pytest.approx(0.0024)
    assert "at this machine's roofline bounds they would take 2.400 ms, 80% of that" in str(result)
    run._tasks[0].bound = 0.0012  # it is measured, too
    assert run.result().bound == pytest.approx(0.003)


def test_operators_without_a_bound_count_as_measured_while_they_hardly_matter(run):
    run._tasks[0].bound = 0.0008  # three times of 1 ms; the other has none
    run._tasks[1].latency = 0.0001
    assert run.result().bound == pytest.approx(0.0025)
    run._tasks[1].latency = 0.001
    assert run.result().bound == 0


def test_an_error_of_the_evaluation_is_part_of_the_result(run):
    run._compare(lambda: 1 / 0)
    assert run.result().comparison is None
    error = "ZeroDivisionError: division by zero"
    assert run.result().comparison_error == error
    assert f"the networks could not be compared: {error}" in str(run.result())


@pytest.mark.parametrize(
    ("error", "reason"), [(KeyboardInterrupt(), "interrupted"), (OSError("full"), "OSError")]
)
def test_an_exception_writes_the_best_and_prints_the_result(run, screen, error, reason):
    def open_measurer():
        raise error

    with pytest.raises(type(error)):
        run.run(open_measurer, equal, np.random.default_rng(0), None)
    assert run.written == 1
    assert f"ended by: {reason}" in screen.getvalue()


def test_without_trials_left_only_the_best_is_written_and_the_networks_compared(run):
    run._tasks[1].progress.trials = 6
    result = run.run(None, None, None, lambda: compared(0.2, 0.1))
    assert (result.stop_reason, run.written, run.confirmed) == ("trials", 1, 0)
    assert result.comparison.outputs_match


@pytest.mark.parametrize(
    ("after", "noise", "said"),
    [(0.0103, 0.001, True), (0.0103, 0.1, False), (0.01005, 0.0, False), (0.008, 0.001, False)],
)
def test_a_network_that_became_slower_beyond_noise_stays_untuned(run, after, noise, said):
    run._compare(lambda: compared(0.010, after, noise=noise))
    assert ("the best file has the untuned network" in str(run.result())) == run.untuned == said


class TestUntuned:
    """The network was better untuned in an earlier call."""

    @pytest.fixture
    def run(self, run):
        run.untuned = True
        return run

    def test_it_stays_so_if_it_is_not_compared(self, run):
        run._tasks[1].progress.trials = 6
        run.run(None, None, None, None)
        assert run.untuned

    def test_it_is_unknown_once_more_is_measured(self, run):
        measure(run)
        assert not run.untuned

    def test_a_comparison_is_with_the_tuned_network(self, run):
        def compare():
            assert (run.untuned, run.written) == (False, 1)
            return compared(0.2, 0.1)

        run._compare(compare)
        assert run.result().comparison
        assert (run.untuned, run.written) == (False, 1)

    @pytest.mark.parametrize("error", [OSError("no device"), KeyboardInterrupt()])
    def test_it_stays_so_if_the_comparison_fails(self, run, error):
        def compare():
            raise error

        with suppress(KeyboardInterrupt):
            run._compare(compare)
        assert run.untuned


class TestConfirmation:
    """Of a task whose best is of an earlier call, and of a trial that was lucky once."""

    @pytest.fixture
    def confirm(self, run, monkeypatch):
        def confirm(latency, earlier=()):
            if earlier:
                run._run_log.runs.confirmed["c"] = BestConfirmed("c", "", [*earlier], ties=1)
            race = Race(1)
            for _ in range(3):
                race.add([latency])
            finalist = SimpleNamespace(trial="lucky", seconds=0.0005)
            finalists = SimpleNamespace(of=lambda key: [finalist])
            monkeypatch.setattr("autotvm_opevo.tuning.run.confirm", lambda *_: [(0, race)])
            used = []
            monkeypatch.setattr(
                run,
                "_use_confirmed",
                lambda task, best, latency: used.append((best, latency)) or "record",
            )
            run._before = {task.key: (task.latency, task.best) for task in run._tasks}
            run._measurer = SimpleNamespace(finalists=finalists)
            TuningRun._confirm(run)
            return used

        return confirm

    def test_what_is_slower_when_it_is_timed_again_does_not_replace_what_was_timed_again(
        self, confirm, tmp_path
    ):
        timings = [0.00098, 0.001, 0.0011]
        assert confirm(0.0013, timings) == [("earlier", 0.001)]
        (event,) = read(tmp_path / "journal")
        assert (event.record, event.latencies, event.ties) == ("record", timings, 1)

    def test_it_replaces_a_single_trial_which_may_have_been_lucky_too(self, confirm, tmp_path):
        assert confirm(0.0013) == [("lucky", 0.0013)]
        (event,) = read(tmp_path / "journal")
        assert event.latencies == [0.0013] * 3

    def test_what_is_faster_does(self, confirm):
        assert confirm(0.0009, [0.00098, 0.001, 0.0011]) == [("lucky", 0.0009)]


class TestLoop:
    def test_the_budget_is_spent_on_all_tasks_and_every_trial_is_stored_once(self, run):
        measurer = measure(run)
        assert (run.trials, run.left, run.stop_reason) == (8, 0, "trials")
        assert sorted(measurer.candidates) == [
            ("conv2d", 3),
            ("conv2d", 4),
            ("dense", 1),
            ("dense", 2),
            ("dense", 3),
            ("dense", 4),
        ]
        assert run.store.trials == [(name, 1 / number) for name, number in measurer.candidates]
        assert run.confirmed == 1
        assert run.result().latency == pytest.approx(3 * 0.001 + 1 / 4)

    def test_a_task_knows_when_its_proposal_is_measured(self, run):
        measure(run)
        assert [sum(task.finished) for task in run._tasks] == [2, 4]
        assert all(task.progress.pending == 0 for task in run._tasks)

    @pytest.mark.parametrize(
        ("results", "devices", "builds_end", "ahead"),
        [
            (0, 1, False, 8),
            (0, 16, False, 32),
            (0, 1, True, 8),
            (100, 1, True, 25),
            pytest.param(100, 1, False, 65, id="the device waits"),
        ],
    )
    def test_a_search_waits_for_results_however_many_builders_there_are(
        self, run, results, devices, builds_end, ahead
    ):
        run._tasks[1].progress.trials = results
        run._budget.trials = 1000
        run._task_scheduler, run._rng = lambda *_: 1, np.random.default_rng(0)
        run._measurer = measurer = Busy(devices, builds_end)
        while measurer.has_capacity and run._submit():
            pass
        assert ahead <= len(measurer.candidates) < ahead + measurer.batch

    def test_it_ends_when_all_tasks_are_exhausted(self, run):
        for task in run._tasks:
            task.left = task.left[:1]
        measure(run)
        assert (run.trials, run.stop_reason) == (4, "exhausted")

    def test_it_ends_where_more_tasks_are_exhausted_in_a_row_than_calls_can_be_nested(self, run):
        """As in a large network, most of whose operators have few schedules."""
        number, limit = 1000, sys.getrecursionlimit()  # which TVM raises to 10,000
        run._tasks = [Task(f"relu{i}", 0, math.inf, size=0) for i in range(number)]
        run._operators = [Operator(1, (i,)) for i in range(number)]
        sys.setrecursionlimit(number)
        try:
            measure(run)
        finally:
            sys.setrecursionlimit(limit)
        assert (run.trials, run.stop_reason) == (0, "exhausted")

    def test_nothing_is_begun_after_the_deadline(self, run):
        run._budget.deadline = 0.0
        measurer = measure(run)
        assert (measurer.candidates, run.stop_reason) == ([], "time limit")
        assert run.confirmed == 1

    def test_after_ctrl_c_what_was_measured_is_stored_and_the_run_log_says_why(self, run, tmp_path):
        with pytest.raises(KeyboardInterrupt):
            measure(run, Inverter(fails_at=3))
        assert len(run.store.trials) == 3
        assert run.confirmed == 0
        assert [*read(tmp_path / "journal")][-1].stop_reason == "interrupted"

    def test_ctrl_c_while_what_does_not_run_yet_is_dropped_loses_nothing(self, run):
        class Interrupted(Inverter):
            """Ctrl-C comes when the second of three trials is cancelled."""

            def submit(self, task, candidates):
                return [Future(), *super().submit(task, candidates)]

            def cancel(self):
                next(iter(run._pending)).cancel()
                raise KeyboardInterrupt

        run._measurer = measurer = Interrupted()
        run._task_scheduler, run._rng = equal, np.random.default_rng(0)
        run._submit()
        run._budget.deadline = 0.0
        with pytest.raises(KeyboardInterrupt):
            measure(run, measurer)
        assert len(run.store.trials) == 2

    def test_a_full_disk_ends_the_run_and_no_trial_counts_that_was_not_stored(
        self, run, monkeypatch
    ):
        def full(task, trial):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(run.store, "append", full)
        with pytest.raises(OSError, match="No space left"):
            measure(run)
        assert (run.trials, run.stop_reason) == (2, "OSError")
