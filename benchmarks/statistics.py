"""Statistical comparison of tuners by runs with several seeds on several landscapes.

A tuner's results are an array of shape (landscapes, seeds). Seeds pair the runs of two tuners on a
landscape.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Difference:
    """The difference of two tuners.

    Attributes
    ----------
    mean : float
        Mean over landscapes and seeds of the first tuner's results minus the second's.
    low, high : float
        95% confidence interval of the mean, by Student's t with Satterthwaite's degrees of freedom
        over the landscapes; infinite with one seed. It accounts for seeds, not for other
        landscapes.
    p : float
        Two-sided p-value of a paired sign-flip test.
    vargha_delaney_a : float
        Effect size: the probability that a run of the first tuner beats one of the second, with
        ties counted half, averaged over landscapes. 0.5 is no effect.
    """

    mean: float
    low: float
    high: float
    p: float
    vargha_delaney_a: float


def difference(
    first: Array, second: Array, rng: np.random.Generator, resamples: int = 9999
) -> Difference:
    """Compare two tuners by results of which higher is better.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> shift = difference(rng.normal(0.2, 0.1, (3, 20)), rng.normal(0.0, 0.1, (3, 20)), rng)
    >>> shift.low < 0.2 < shift.high, shift.p < 0.01, round(shift.vargha_delaney_a, 1)
    (True, True, 0.9)
    """
    gaps = first - second
    flipped = rng.choice([-1.0, 1.0], (resamples, gaps.size)) @ gaps.ravel() / gaps.size
    extreme = np.count_nonzero(np.abs(flipped) >= abs(gaps.mean()) - 1e-12)
    a = np.mean([stats.mannwhitneyu(x, y).statistic / len(x) ** 2 for x, y in zip(first, second)])
    return Difference(*_interval(gaps), (extreme + 1) / (resamples + 1), float(a))


def _interval(values: Array) -> tuple[float, float, float]:
    """Mean of values of shape (landscapes, seeds), and its 95% interval; see `Difference`."""
    mean, seeds = float(values.mean()), values.shape[1]
    if seeds == 1:
        return mean, -np.inf, np.inf
    variances = values.var(axis=1, ddof=1) / seeds
    total = variances.sum()
    if total == 0:
        return mean, mean, mean
    satterthwaite = total**2 / (variances**2 / (seeds - 1)).sum()
    margin = float(stats.t.ppf(0.975, satterthwaite) * np.sqrt(total) / len(variances))
    return mean, mean - margin, mean + margin


def geometric_mean_interval(ratios: ArrayLike) -> tuple[float, float, float]:
    """Geometric mean of ratios, and its 95% interval by Student's t of their logarithms. Those of
    several landscapes have the shape (landscapes, seeds), and an interval as in `Difference`.

    Examples
    --------
    >>> mean, low, high = geometric_mean_interval([1.1, 1.2, 1.3])
    >>> f"{mean:.2f} ({low:.2f} to {high:.2f})"
    '1.20 (0.97 to 1.47)'
    """
    mean, low, high = np.exp(_interval(np.log(np.atleast_2d(ratios))))
    return float(mean), float(low), float(high)


def verdicts(differences: list[Difference], level: float = 0.05) -> list[str]:
    """Classify each difference as ahead, behind or tie, with Holm's control of the family-wise
    error rate.

    Examples
    --------
    >>> ahead = Difference(0.1, 0.05, 0.15, 0.001, 0.8)
    >>> verdicts([ahead, Difference(-0.01, -0.03, 0.01, 0.4, 0.45)])
    ['ahead', 'tie']
    """
    labels = ["tie"] * len(differences)
    for rank, i in enumerate(np.argsort([d.p for d in differences], kind="stable")):
        if differences[i].p > level / (len(differences) - rank):
            break
        labels[i] = "ahead" if differences[i].mean > 0 else "behind"
    return labels


def trials_to(curve: Array, goal: float) -> float:
    """The first trial, counted from 1, at which the best so far reaches the goal; infinite if it
    never does.

    >>> trials_to(np.array([0.2, 0.9, 0.9, 1.0]), 0.9), trials_to(np.array([0.2]), 0.9)
    (2.0, inf)
    """
    reached = np.flatnonzero(curve >= goal)
    return float(reached[0] + 1) if reached.size else float("inf")


def ratio_of_medians(
    first: Sequence[Array], second: Sequence[Array], rng: np.random.Generator, resamples: int = 9999
) -> tuple[float, float, float]:
    """The ratio of two tuners' medians over all runs, and its 95% interval by a bootstrap of the
    seeds of each landscape.

    One seed less than there are is drawn of each landscape (Rao and Wu, 1988), or few seeds would
    seem to vary too little. One seed has no interval. Where both medians miss the goal, their ratio
    may be any.

    Parameters
    ----------
    first, second : sequence of arrays, shape (seeds,)
        Costs on each landscape; infinite for a run that did not reach its goal.
    rng : numpy.random.Generator
    resamples : int
        Number of bootstrap samples.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> ratio, low, high = ratio_of_medians([np.arange(9, 12)], [np.arange(19, 22)], rng)
    >>> ratio, low < ratio < high
    (0.5, True)
    """
    with np.errstate(invalid="ignore"):  # two that miss the goal
        ratio = np.median(np.concatenate(first)) / np.median(np.concatenate(second))
    if min(map(len, [*first, *second])) == 1:
        return float(ratio), 0.0, float("inf")
    above, below = (
        np.median(
            np.concatenate(
                [rng.choice(runs, (resamples, max(1, len(runs) - 1))) for runs in of], axis=1
            ),
            axis=1,
        )
        for of in (first, second)
    )
    with np.errstate(invalid="ignore"):
        ratios = above / below
    # no interpolation between infinite ratios
    low, high = (
        np.quantile(np.where(np.isnan(ratios), bound, ratios), level, method="nearest")
        for bound, level in ((0.0, 0.025), (np.inf, 0.975))
    )
    return float(ratio), float(low), float(high)
