"""A session: what it announces, journals and returns, whatever measures."""

import io
import json
import math
from collections import Counter
from contextlib import suppress

import pytest
from compared_networks import compared

from autotvm_opevo.tuning.journal import Journal, read
from autotvm_opevo.tuning.progress import ProgressDisplay
from autotvm_opevo.tuning.session import Session
from autotvm_opevo.tuning.task_scheduler import Operator, TaskProgress


class Task:
    def __init__(self, name, trials, latency, failures=()):
        self.name, self.key = name, name[0]
        self.progress = TaskProgress(flop=1e6, trials=trials)
        self.latency, self.failures = latency, Counter(failures)
        self.dominant_error = "boom" if latency == math.inf and failures else ""


@pytest.fixture
def screen():
    return io.StringIO()


@pytest.fixture
def session(tmp_path, screen):
    """Two tasks with two of eight trials."""
    tasks = [Task("conv2d", 2, 0.001), Task("dense", 0, math.inf)]
    operators = [Operator(3, (0,)), Operator(1, (1,))]
    journal = Journal(tmp_path / "journal")
    session = Session(tasks, operators, 8, tmp_path / "log", journal, 0.0)
    session.display = ProgressDisplay(8, file=screen)
    return session


def journal(tmp_path):
    return [json.loads(line) for line in (tmp_path / "journal").read_text().splitlines()]


def test_it_announces_the_budget_and_journals_the_network(session, tmp_path, screen):
    session.announce("OpEvo, seed 0", "log")
    assert "2 tasks, 8 trials, 2 of them in the log; starting to measure" in screen.getvalue()
    (start,) = journal(tmp_path)
    assert start["operators"] == [[3, ["c"]], [1, ["d"]]]
    assert (start["tuner"], start["budget"], start["flop"].keys()) == ("OpEvo, seed 0", 8, {"c", "d"})


def test_nothing_is_journaled_without_trials_left(session, tmp_path):
    session._tasks[1].progress.trials = 6
    session.announce("OpEvo", "log")
    assert not (tmp_path / "journal").exists()


def test_the_result_counts_the_trials_of_this_call(session):
    session._tasks[1].progress.trials = 4
    session._tasks[1].failures["run timeout"] = 4
    result = session.result()
    assert (result.trials, result.measured, session.left) == (6, 4, 2)
    assert result.latency == pytest.approx(0.003)
    assert [(row.name, row.share, row.failures) for row in result.rows] == [("conv2d", 1.0, ""), ("dense", 0.0, "run timeout 4")]


def test_the_comparison_with_the_untuned_network_is_journaled(session, tmp_path):
    session.evaluate(lambda: compared(0.2, 0.1, noise=0))
    (entry,) = journal(tmp_path)
    assert (entry["before"], entry["after"]) == (pytest.approx(0.2), pytest.approx(0.1))
    assert entry["speedup"] == pytest.approx([2, 2, 2])
    assert "2.00 times as fast as untuned (2.00 to 2.00)\noutputs match" in str(session.result())


def test_a_network_that_was_timed_once_has_no_interval(session, tmp_path):
    session.evaluate(lambda: compared(0.2, 0.1, rounds=1))
    assert "as fast as untuned (unknown)\noutputs match" in str(session.result())
    (event,) = read(tmp_path / "journal")
    assert event.speedup == []


def test_networks_with_different_outputs_are_not_timed(session, tmp_path):
    comparison = compared(0.2, 0.1, rounds=0, error=0.5)
    comparison.outputs_match = False
    session.evaluate(lambda: comparison)
    assert not [*read(tmp_path / "journal")]
    assert "outputs DIFFER, relative error 5.0e-01" in str(session.result())


def test_the_phases_add_up_to_the_duration_and_the_rest_is_building(session, tmp_path, monkeypatch):
    monkeypatch.setattr("time.monotonic", iter([10.0, 12.0, 100.0]).__next__)
    with session.phase("searching"):
        pass
    session.end({"running": 30.0}, "building")
    phases = {"searching": 2.0, "running": 30.0, "building": 68.0}
    assert session.result().phases == phases
    assert session.result().seconds == 100
    (event,) = read(tmp_path / "journal")
    assert (event.phases, event.stop_reason) == (phases, "trials")
    assert "\ntime: building 68 s, running 30 s, searching 2 s\n" in str(session.result())


def test_the_network_s_limit_is_that_of_its_fastest_implementations(session):
    assert session.result().limit == 0  # unknown
    session._tasks[0].progress.limit = 0.0008  # three times of 1 ms
    result = session.result()
    assert result.limit == pytest.approx(0.0024)
    assert "at this machine's limit they would take 2.400 ms, 80% of that" in str(result)
    session._tasks[0].progress.limit = 0.0012  # it is measured, too
    assert session.result().limit == pytest.approx(0.003)


def test_an_error_of_the_evaluation_is_part_of_the_result(session):
    session.evaluate(lambda: 1 / 0)
    assert session.result().comparison is None
    assert session.result().comparison_error == "ZeroDivisionError: division by zero"


@pytest.mark.parametrize(("error", "reason"), [(KeyboardInterrupt(), "interrupted"), (OSError("full"), "OSError")])
def test_an_exception_prints_the_result(session, screen, error, reason):
    session.abort(error)
    assert f"ended by: {reason}" in screen.getvalue()


@pytest.mark.parametrize(
    ("after", "noise", "said"), [(0.0103, 0.001, True), (0.0103, 0.1, False), (0.01005, 0.0, False), (0.008, 0.001, False)]
)
def test_a_network_that_became_slower_beyond_noise_is_not_recommended(session, after, noise, said):
    session.evaluate(lambda: compared(0.010, after, noise=noise))
    assert ("use the untuned network" in str(session.result())) == said


def test_an_exception_that_the_caller_handles_is_not_what_ended_the_call(tmp_path):
    try:
        raise OSError("an earlier attempt")
    except OSError:
        session = Session(
            [Task("conv2d", 8, 0.001)], [Operator(1, (0,))], 8, tmp_path / "log", Journal(tmp_path / "journal"), 0.0
        )
        session.end({}, "searching")
    assert session.stop_reason == "trials"


def test_an_exception_that_ends_the_call_is_told(session):
    with suppress(OSError):
        try:
            raise OSError("the disk is full")
        finally:
            session.end({}, "searching")
    assert session.stop_reason == "OSError"
