"""Which knobs of a task mattered: exact on the model, and right about simulated searches."""

import math
from itertools import product

import numpy as np
import pytest

from autotvm_opevo import OpEvo, Space
from autotvm_opevo.reporting.importance import _shares, fanova, importance
from autotvm_opevo.reporting.knob_graphs import complete_knobs
from autotvm_opevo.reporting.trials import Task, TaskId, Trial, Value
from autotvm_opevo.topology import Categorical, Discrete, Factorization

KNOBS = {
    "tile": Factorization(64, parts=2),
    "unroll": Discrete([0, 16, 64, 512]),
    "vectorize": Categorical([False, True]),
    "explicit": Categorical([False, True]),
}


def searched(log_latency, trials=96, seed=0, noise=0.03):
    """The trials of a search for the lowest latency."""
    search, rng = OpEvo(Space(KNOBS), seed=seed), np.random.default_rng(seed)
    settings, logs = [], []
    while len(settings) < trials:
        asked = search.ask(8)
        measured = [log_latency(configuration) + rng.normal(0, noise) for configuration in asked]
        search.tell(asked, list(np.exp(-np.array(measured))))
        settings, logs = settings + asked, logs + measured
    return fanova(KNOBS, settings, np.exp(logs))


def additive(configuration):
    """Effects of three knobs. The fourth has none."""
    return (
        abs(np.log2(configuration["tile"][1]) - 4) / 2
        + configuration["vectorize"]
        + 0.002 * configuration["unroll"]
    )


def interacting(configuration):
    """Vectorizing is good for wide tiles only."""
    wide = configuration["tile"][1] >= 8
    return additive(configuration) + 1.5 * (wide == configuration["vectorize"])


def test_the_shares_are_those_of_the_model_on_all_configurations():
    rng = np.random.default_rng(0)
    alpha, correlations = rng.normal(size=9), [rng.random((values, 9)) for values in (2, 3, 4)]
    f = np.einsum("n,an,bn,cn->abc", alpha, *correlations)
    parts = {}  # by knobs: the mean over all others, without the parts due to fewer
    for knobs in ((), (0,), (1,), (2,), (0, 1), (0, 2), (1, 2)):
        mean = f.mean(axis=tuple({0, 1, 2}.difference(knobs)), keepdims=True)
        parts[knobs] = mean - sum(
            part for smaller, part in parts.items() if set(smaller) < set(knobs)
        )
    alone, pairs = _shares(alpha, correlations)
    assert alone == pytest.approx([(parts[j,] ** 2).mean() / f.var() for j in range(3)])
    assert pairs == pytest.approx(
        {pair: (parts[pair] ** 2).mean() / f.var() for pair in ((0, 1), (0, 2), (1, 2))}
    )


@pytest.mark.parametrize("seed", range(4))
def test_neither_a_pair_nor_a_knob_without_effect_has_a_share_in_a_search(seed):
    """Although a search prefers the values of its best trials."""
    found = searched(additive, seed=seed)
    assert found.is_reliable
    assert not found.pairs
    assert found.alone["explicit"] < 0.02


@pytest.mark.parametrize("seed", range(4))
def test_pairs_that_interact_are_found_in_a_search(seed):
    assert list(searched(interacting, seed=seed).pairs) == [("tile", "vectorize")]


def test_the_shares_are_those_of_the_whole_space():
    grid = [additive(dict(zip(KNOBS, values))) for values in product(*KNOBS.values())]
    effects = [
        additive({"tile": (8, 8), "unroll": 0, "vectorize": False} | {"tile": tile})
        for tile in KNOBS["tile"]
    ]
    assert searched(additive).alone["tile"] == pytest.approx(
        np.var(effects) / np.var(grid), abs=0.1
    )


def test_noise_tells_nothing():
    rng = np.random.default_rng(0)
    assert not searched(lambda _: rng.normal()).is_reliable


def task_of(settings, failed=()):
    """A task of trials that take as many seconds as their knob `x` says, and their knob `sketch`,
    if any.
    """
    task = Task(TaskId("task", "task", "llvm", "task"))
    for i, setting in enumerate(settings):
        latency = math.inf if i in failed else setting["x"] + float(setting.get("sketch", 0))
        knobs = {
            name: Value("choice" if name == "sketch" else "number", value)
            for name, value in setting.items()
        }
        task.trials.append(Trial(latency, "failed" if i in failed else "", knobs))
    return task


def found(*tasks):
    return importance(tasks, complete_knobs(tasks, {}))


GRID = [{"x": x, "y": y} for x in range(1, 9) for y in range(6)]


def test_the_knob_that_decides_has_the_whole_share():
    shares = found(task_of(GRID)).alone
    assert shares == pytest.approx({"x": 1, "y": 0}, abs=0.02)


def test_all_logs_count_and_failures_do_not():
    assert found(task_of(GRID[:31])) is None
    assert found(task_of(GRID[:31]), task_of(GRID[31:])) is not None
    assert found(task_of(GRID, failed=range(31, 48))) is None


def test_trials_that_set_other_knobs_than_the_best_do_not_count():
    others = [{"x": 20, "z": z} for z in range(40)]
    assert found(task_of(GRID + others)).alone.keys() == {"x", "y"}


def test_knobs_that_do_not_vary_are_left_out():
    assert found(task_of([{**setting, "sketch": "1"} for setting in GRID])).alone.keys() == {
        "x",
        "y",
    }
    assert found(task_of([{"x": 1 + i % 8, "y": 0} for i in range(48)])) is None


@pytest.mark.parametrize(
    "settings", [[{"x": 1, "y": i % 5, "z": i % 3} for i in range(48)], [{"x": 1, "y": 2}] * 48]
)
def test_equal_latencies_tell_nothing(settings):
    assert found(task_of(settings)) is None


def test_tiles_of_different_loops_can_be_compared():
    """A knob of the same name whose extent has changed."""
    task = Task(TaskId("task", "task", "llvm", "task"))
    for i in range(40):
        tile = (8 >> i % 4, 1 << i % 4) if i % 2 else (6, 2)
        knobs = {"t": Value("tile", tile), "u": Value("number", i % 3)}
        task.trials.append(Trial(1.0 + i, "", knobs))
    assert found(task) is not None
