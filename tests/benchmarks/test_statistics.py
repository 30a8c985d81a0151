"""Statistical tests detect differences, at their nominal error rates."""

import numpy as np
import pytest
from scipy import stats

from benchmarks.statistics import Difference, difference, ratio_of_medians, verdicts


def test_the_rate_of_false_positives_is_nominal():
    rng = np.random.default_rng(0)
    found = [difference(*rng.normal(size=(2, 3, 12)), rng, resamples=499) for _ in range(100)]
    assert np.mean([d.p <= 0.05 for d in found]) < 0.13


@pytest.mark.parametrize("runs", [100, pytest.param(400, marks=pytest.mark.soak)])
@pytest.mark.parametrize("seeds", [2, 3, 12])
@pytest.mark.parametrize(
    "spread", [[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 20]], ids=["alike", "one varies most"]
)
def test_the_interval_of_a_difference_covers_it_with_few_seeds_too(seeds, spread, runs):
    rng = np.random.default_rng(0)
    scale = np.reshape(spread, (1, -1, 1))
    found = [
        difference(*rng.normal(0, scale, (2, 6, seeds)), rng, resamples=9) for _ in range(runs)
    ]
    assert sum(d.low <= 0 <= d.high for d in found) >= stats.binom.ppf(0.0001, runs, 0.95)


def test_one_seed_has_no_interval():
    found = difference(np.ones((3, 1)), np.zeros((3, 1)), np.random.default_rng(0))
    assert (found.low, found.high) == (-np.inf, np.inf)


def test_differences_between_landscapes_do_not_count():
    rng = np.random.default_rng(0)
    landscapes = np.array([[0.1], [0.5], [0.9]])
    found = difference(
        landscapes + rng.normal(0, 0.01, (3, 20)), landscapes + rng.normal(0, 0.01, (3, 20)), rng
    )
    assert found.p > 0.01
    assert found.high - found.low < 0.02


def test_equal_results_are_a_tie():
    same = np.random.default_rng(0).random((2, 10))
    found = difference(same, same, np.random.default_rng(0))
    assert (found.mean, found.low, found.high, found.p, found.vargha_delaney_a) == (0, 0, 0, 1, 0.5)


def test_a_tuner_that_always_wins_has_an_effect_size_of_one():
    found = difference(np.full((2, 10), 0.9), np.full((2, 10), 0.8), np.random.default_rng(0))
    assert found.vargha_delaney_a == 1
    assert found.p < 0.01


def made(p, mean=1.0):
    return Difference(mean, 0, 0, p, 0.5)


@pytest.mark.parametrize(
    ("ps", "expected"),
    [
        ([0.04], ["ahead"]),
        ([0.04, 0.04], ["tie", "tie"]),
        ([0.001, 0.04], ["ahead", "ahead"]),
        ([0.02, 0.03, 0.04], ["tie", "tie", "tie"]),
    ],
)
def test_holm_s_correction(ps, expected):
    assert verdicts([made(p) for p in ps]) == expected


def test_a_negative_difference_is_behind():
    assert verdicts([made(0.001, mean=-0.1)]) == ["behind"]


@pytest.mark.parametrize(("landscapes", "seeds"), [(3, 20), (13, 3)])
def test_the_interval_of_a_ratio_covers_it(landscapes, seeds):
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(100):
        slow, fast = (
            rng.lognormal(np.log(median), 0.3, (landscapes, seeds)) for median in (100, 50)
        )
        ratio, low, high = ratio_of_medians(fast, slow, rng, resamples=199)
        assert low <= ratio <= high
        hits += low <= 0.5 <= high
    assert hits > 89


def test_one_seed_has_no_interval_of_a_ratio():
    found = ratio_of_medians([np.array([10.0])], [np.array([20.0])], np.random.default_rng(0))
    assert found == (0.5, 0, np.inf)


def test_where_both_may_miss_the_goal_their_ratio_may_be_any():
    some = np.array([90.0, 100.0, 120.0, np.inf, np.inf])
    rng = np.random.default_rng(0)
    assert ratio_of_medians([some], [2 * some], rng) == (0.5, 0, np.inf)
    never = np.full(3, np.inf)
    ratio, *interval = ratio_of_medians([never], [never], rng)
    assert np.isnan(ratio)
    assert interval == [0, np.inf]


def test_runs_that_never_reach_the_goal_count_as_the_slowest():
    never = np.array([10.0, 20.0, np.inf])
    assert ratio_of_medians([never], [np.full(3, 40.0)], np.random.default_rng(0))[0] == 0.5
    assert ratio_of_medians([np.full(3, 40.0)], [np.full(3, np.inf)], np.random.default_rng(0)) == (
        0,
        0,
        0,
    )
