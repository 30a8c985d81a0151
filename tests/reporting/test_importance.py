"""Which knobs of a task mattered."""

import math

import pytest

from autotvm_opevo.reporting.importance import importance
from autotvm_opevo.reporting.knobs import Value
from autotvm_opevo.reporting.logs import TuningLog
from autotvm_opevo.reporting.network import Network
from autotvm_opevo.reporting.trials import Trial


def log_of(settings, failed=()):
    """A log of trials that take as many seconds as their knob `x` says, and their knob `sketch`, if any."""
    log = TuningLog("log")
    for i, setting in enumerate(settings):
        latency = math.inf if i in failed else setting["x"] + float(setting.get("sketch", 0))
        knobs = {name: Value("choice" if name == "sketch" else "number", value) for name, value in setting.items()}
        log.add(Trial("task", "task", latency, "failed" if i in failed else "", "llvm", float(i), knobs))
    return log


def found(*logs):
    (task,) = Network(logs).tasks
    return importance(task)


GRID = [{"x": x, "y": y} for x in range(1, 9) for y in range(6)]


def test_the_knob_that_decides_has_the_whole_share():
    shares = found(log_of(GRID)).alone
    assert shares == pytest.approx({"x": 1, "y": 0}, abs=0.02)


def test_all_logs_count_and_failures_do_not():
    assert found(log_of(GRID[:31])) is None
    assert found(log_of(GRID[:31]), log_of(GRID[31:])) is not None
    assert found(log_of(GRID, failed=range(31, 48))) is None


def test_trials_that_set_other_knobs_than_the_best_do_not_count():
    others = [{"x": 20, "z": z} for z in range(40)]
    assert found(log_of(GRID + others)).alone.keys() == {"x", "y"}


def test_knobs_that_do_not_vary_are_left_out():
    assert found(log_of([{**setting, "sketch": "1"} for setting in GRID])).alone.keys() == {"x", "y"}
    assert found(log_of([{"x": 1 + i % 8, "y": 0} for i in range(48)])) is None


@pytest.mark.parametrize("settings", [[{"x": 1, "y": i % 5, "z": i % 3} for i in range(48)], [{"x": 1, "y": 2}] * 48])
def test_equal_latencies_tell_nothing(settings):
    assert found(log_of(settings)) is None


def test_tiles_of_different_loops_can_be_compared():
    """A knob of the same name whose extent has changed."""
    log = TuningLog("log")
    for i in range(40):
        tile = (8 >> i % 4, 1 << i % 4) if i % 2 else (6, 2)
        log.add(Trial("task", "task", 1.0 + i, "", "llvm", float(i), {"t": Value("tile", tile), "u": Value("number", i % 3)}))
    assert found(log) is not None
