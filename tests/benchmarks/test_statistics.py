"""The tests are honest: they find what is there, and call a tie what is none."""

import numpy as np
import pytest

from benchmarks.statistics import Difference, difference, trials_to, verdicts


def test_nothing_is_found_where_there_is_nothing_more_often_than_promised():
    rng = np.random.default_rng(0)
    found = [difference(*rng.normal(size=(2, 3, 12)), rng, resamples=499) for _ in range(100)]
    assert np.mean([d.p <= 0.05 for d in found]) < 0.13
    assert np.mean([d.low <= 0 <= d.high for d in found]) > 0.85


def test_a_difference_between_landscapes_is_none_between_tuners():
    rng = np.random.default_rng(0)
    landscapes = np.array([[0.1], [0.5], [0.9]])
    found = difference(landscapes + rng.normal(0, 0.01, (3, 20)), landscapes + rng.normal(0, 0.01, (3, 20)), rng)
    assert found.p > 0.01
    assert found.high - found.low < 0.02


def test_the_same_numbers_are_a_tie():
    same = np.random.default_rng(0).random((2, 10))
    found = difference(same, same, np.random.default_rng(0))
    assert (found.mean, found.low, found.high, found.p, found.chance) == (0, 0, 0, 1, 0.5)


def test_who_is_always_better_has_a_chance_of_one():
    found = difference(np.full((2, 10), 0.9), np.full((2, 10), 0.8), np.random.default_rng(0))
    assert found.chance == 1
    assert found.p < 0.01


def made(p, mean=1.0):
    return Difference(mean, 0, 0, p, 0.5)


@pytest.mark.parametrize(
    ("ps", "said"),
    [
        ([0.04], ["ahead"]),
        ([0.04, 0.04], ["tie", "tie"]),
        ([0.001, 0.04], ["ahead", "ahead"]),
        ([0.02, 0.03, 0.04], ["tie", "tie", "tie"]),
    ],
)
def test_many_comparisons_need_more_each(ps, said):
    assert verdicts([made(p) for p in ps]) == said


def test_who_is_behind_is_said_to_be():
    assert verdicts([made(0.001, mean=-0.1)]) == ["behind"]


def test_the_first_trial_that_reaches_a_goal_counts_from_one():
    assert trials_to(np.array([0.95, 0.95]), 0.95) == 1
    assert trials_to(np.array([0.1, 0.94]), 0.95) == float("inf")
