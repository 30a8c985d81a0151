"""Intervals that hold at all numbers of measurements at once."""

from math import exp, inf, log

import numpy as np
import pytest
from scipy import integrate, stats

from autotvm_opevo.tuning import confidence
from autotvm_opevo.tuning.confidence import geometric_mean

RUNS, LENGTH = 1000, 50


def misses(interval, alpha=0.05, runs=RUNS):
    """The share of runs in which an interval, looked at after each measurement, does not hold at some time."""
    rng = np.random.default_rng(0)
    values = rng.normal(0.0, 0.05, (runs, LENGTH))
    return np.mean([any(not interval(run[:n], alpha) for n in range(2, LENGTH + 1)) for run in values])


def anytime(values, alpha):
    found = geometric_mean(np.exp(values), alpha)
    return found.low <= 1.0 <= found.high


def student(values, alpha):
    low, high = stats.t.interval(1 - alpha, len(values) - 1, values.mean(), stats.sem(values))
    return low <= 0.0 <= high


@pytest.mark.parametrize("alpha", [0.05, 0.2])
def test_who_looks_after_each_measurement_is_misled_no_more_often_than_alpha(alpha):
    allowed = stats.binom.ppf(0.9999, RUNS, alpha) / RUNS
    assert misses(anytime, alpha=alpha) <= allowed


def test_a_t_interval_would_mislead_more_often():
    # Fewer runs, since scipy's interval takes a millisecond.
    assert misses(student, runs=200) > 0.2


def test_the_interval_does_not_depend_on_the_unit():
    values = np.array([1.1, 1.3, 1.2, 1.25, 1.15])
    one, thousand = geometric_mean(values), geometric_mean(1000 * values)
    assert thousand == pytest.approx(tuple(1000 * x for x in one))


def test_the_ends_are_where_the_bayes_factor_is_one_over_alpha():
    """The closed form against the integral that it comes from: a t statistic under a Gaussian prior on the effect size."""
    values, alpha = np.array([0.11, 0.13, 0.12, 0.16, 0.10, 0.11, 0.14]), 0.05
    n, prior = len(values), confidence._PRIOR_VARIANCE
    end = log(geometric_mean(np.exp(values), alpha).low)
    t = (values.mean() - end) / stats.sem(values)

    def density(effect):
        return stats.nct.pdf(t, n - 1, effect * n**0.5) * stats.norm.pdf(effect, 0.0, prior**0.5)

    alternative, _ = integrate.quad(density, -40, 40, points=[0, 2, 4, 8], limit=200)
    assert alternative / stats.t.pdf(t, n - 1) == pytest.approx(1 / alpha, rel=1e-3)


def test_more_measurements_narrow_the_interval():
    rng = np.random.default_rng(0)
    values = np.exp(rng.normal(0.1, 0.02, 400))
    widths = [high - low for _, low, high in (geometric_mean(values[:n]) for n in (5, 20, 100, 400))]
    assert widths == sorted(widths, reverse=True)
    assert geometric_mean(values).value == pytest.approx(exp(0.1), rel=0.01)


@pytest.mark.parametrize("values", [[2.0], [2.0, 3.0]])
def test_few_measurements_leave_everything_open(values):
    _, low, high = geometric_mean(values)
    assert (low, high) == (0.0, inf)
