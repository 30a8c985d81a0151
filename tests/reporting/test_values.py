"""Statistics of knobs."""

import math

import numpy as np
import pytest
from scipy import stats

from autotvm_opevo.reporting.values import Knob


def knob_of(groups):
    """A knob with these latencies of each of its values."""
    knob = Knob("number")
    for value, latencies in enumerate(groups):
        for latency in latencies:
            knob.add(value, float(latency))
    return knob


def test_the_effect_is_omega_squared_of_the_analysis_of_variance():
    rng = np.random.default_rng(0)
    groups = [np.exp(rng.normal(mean, 0.5, count)) for mean, count in [(0, 12), (1, 30), (0.2, 5)]]
    f = stats.f_oneway(*map(np.log, groups)).statistic
    n, k = 47, 3
    expected = (k - 1) * (f - 1) / ((k - 1) * (f - 1) + n)
    assert knob_of(groups).main_effect == pytest.approx(expected)


def test_values_that_differ_by_chance_have_no_effect():
    rng = np.random.default_rng(1)
    effects = [knob_of(np.exp(rng.normal(0, 1, (10, 4)))).main_effect for _ in range(200)]
    assert np.mean(effects) < 0.1  # eta squared would be 9/39


def test_a_knob_that_explains_everything_has_effect_1_and_failures_do_not_count():
    assert knob_of([[1.0, 1.0], [2.0, 2.0, math.inf], [math.inf]]).main_effect == pytest.approx(1)


@pytest.mark.parametrize("groups", [[[1.0], [2.0]], [[1.0, 1.0], [1.0]], [[math.inf]]])
def test_without_degrees_of_freedom_or_variance_the_effect_is_unknown(groups):
    assert math.isnan(knob_of(groups).main_effect)


def test_merging_logs_is_adding_their_trials():
    first, second = knob_of([[1.0, 2.0], [3.0, math.inf]]), knob_of([[0.5], [4.0], [5.0]])
    for value, one in second.stats.items():
        first.merge(value, one)
    together = knob_of([[1.0, 2.0, 0.5], [3.0, math.inf, 4.0], [5.0]])
    assert first.stats == together.stats
