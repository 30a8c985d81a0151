"""Functional analysis of variance: exact on the model, and right about simulated searches."""

from itertools import product

import numpy as np
import pytest

from autotvm_opevo import OpEvo, Space
from autotvm_opevo.reporting import fanova
from autotvm_opevo.topology import Categorical, Discrete, Factorization

KNOBS = {
    "tile": Factorization(64, parts=2),
    "unroll": Discrete([0, 16, 64, 512]),
    "vectorize": Categorical([False, True]),
    "explicit": Categorical([False, True]),
}


def searched(log_latency, trials=96, seed=0, noise=0.03):
    """The trials of a search for the lowest latency."""
    search, rng, settings, logs = OpEvo(Space(KNOBS), seed=seed), np.random.default_rng(seed), [], []
    while len(settings) < trials:
        asked = search.ask(8)
        measured = [log_latency(configuration) + rng.normal(0, noise) for configuration in asked]
        search.tell(asked, list(np.exp(-np.array(measured))))
        settings, logs = settings + asked, logs + measured
    return fanova.fanova(KNOBS, settings, np.exp(logs))


def additive(configuration):
    """Effects of three knobs. The fourth has none."""
    return abs(np.log2(configuration["tile"][1]) - 4) / 2 + configuration["vectorize"] + 0.002 * configuration["unroll"]


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
        parts[knobs] = mean - sum(part for smaller, part in parts.items() if set(smaller) < set(knobs))
    alone, pairs = fanova._shares(alpha, correlations)
    assert alone == pytest.approx([(parts[j,] ** 2).mean() / f.var() for j in range(3)])
    assert pairs == pytest.approx({pair: (parts[pair] ** 2).mean() / f.var() for pair in ((0, 1), (0, 2), (1, 2))})


@pytest.mark.parametrize("seed", range(4))
def test_where_knobs_do_not_interact_no_pair_does_in_a_search(seed):
    found = searched(additive, seed=seed)
    assert found.is_reliable
    assert not found.interactions


@pytest.mark.parametrize("seed", range(4))
def test_pairs_that_interact_are_found_in_a_search(seed):
    assert list(searched(interacting, seed=seed).interactions) == [("tile", "vectorize")]


@pytest.mark.parametrize("seed", range(4))
def test_a_knob_without_effect_has_no_share_although_a_search_prefers_the_values_of_its_best_trials(seed):
    found = searched(additive, seed=seed)
    assert found.alone["explicit"] < 0.02
    assert found.correlation["explicit"] > max(found.correlation[name] for name in ("tile", "vectorize"))


def test_the_shares_are_those_of_the_whole_space():
    grid = [additive(dict(zip(KNOBS, values))) for values in product(*KNOBS.values())]
    effects = [additive({"tile": (8, 8), "unroll": 0, "vectorize": False} | {"tile": tile}) for tile in KNOBS["tile"]]
    assert searched(additive).alone["tile"] == pytest.approx(np.var(effects) / np.var(grid), abs=0.1)


def test_noise_tells_nothing():
    rng = np.random.default_rng(0)
    assert not searched(lambda _: rng.normal()).is_reliable
