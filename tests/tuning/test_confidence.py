"""Intervals that hold at all numbers of measurements at once."""

from math import exp, inf, log

import numpy as np
import pytest
from scipy import integrate, stats

from autotvm_opevo.tuning import confidence
from autotvm_opevo.tuning.confidence import geometric_mean

LENGTH = 50


def measurements(runs):
    """Runs whose mean is 0."""
    return np.random.default_rng(0).normal(0.0, 0.05, (runs, LENGTH))


def holds(values, alpha):
    found = geometric_mean(np.exp(values), alpha)
    return found.low <= 1.0 <= found.high


@pytest.mark.parametrize("runs", [200, pytest.param(1000, marks=pytest.mark.soak)])
@pytest.mark.parametrize("alpha", [0.05, 0.2])
def test_who_looks_after_each_measurement_is_misled_no_more_often_than_alpha(alpha, runs):
    misled = sum(any(not holds(run[:n], alpha) for n in range(2, LENGTH + 1)) for run in measurements(runs))
    assert misled <= stats.binom.ppf(0.9999, runs, alpha)


def test_a_t_interval_would_mislead_more_often():
    values, n = measurements(1000), np.arange(1, LENGTH + 1)
    mean = values.cumsum(axis=1) / n
    deviation = np.sqrt(((values**2).cumsum(axis=1) - n * mean**2)[:, 1:] / (n[1:] - 1))
    margin = stats.t.ppf(0.975, n[1:] - 1) * deviation / np.sqrt(n[1:])
    assert np.mean((np.abs(mean[:, 1:]) > margin).any(axis=1)) > 0.2


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
