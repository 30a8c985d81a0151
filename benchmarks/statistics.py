"""Statistical comparison of tuners by runs with several seeds on several landscapes.

A tuner's results are an array of shape (landscapes, seeds). Seeds pair the runs of two tuners on a landscape.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
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
        95% confidence interval of the mean, by a bootstrap of the pairs within each landscape. It accounts for seeds, not for
        other landscapes.
    p : float
        Two-sided p-value of a paired sign-flip test.
    vargha_delaney_a : float
        Effect size: the probability that a run of the first tuner beats one of the second, with ties counted half, averaged
        over landscapes. 0.5 is no effect.
    """

    mean: float
    low: float
    high: float
    p: float
    vargha_delaney_a: float


def difference(first: Array, second: Array, rng: np.random.Generator, resamples: int = 9999) -> Difference:
    """Compare two tuners by results of which higher is better.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> shift = difference(rng.normal(0.2, 0.1, (3, 20)), rng.normal(0.0, 0.1, (3, 20)), rng)
    >>> shift.low < 0.2 < shift.high, shift.p < 0.01, round(shift.vargha_delaney_a, 1)
    (True, True, 0.9)
    """
    gaps = first - second
    landscapes, seeds = gaps.shape
    drawn = rng.integers(seeds, size=(resamples, landscapes, seeds))
    means = np.take_along_axis(np.broadcast_to(gaps, drawn.shape), drawn, axis=2).mean(axis=(1, 2))
    low, high = np.quantile(means, [0.025, 0.975])
    flipped = rng.choice([-1.0, 1.0], (resamples, gaps.size)) @ gaps.ravel() / gaps.size
    extreme = np.count_nonzero(np.abs(flipped) >= abs(gaps.mean()) - 1e-12)
    a = np.mean([stats.mannwhitneyu(x, y).statistic / seeds**2 for x, y in zip(first, second)])
    return Difference(float(gaps.mean()), float(low), float(high), (extreme + 1) / (resamples + 1), float(a))


def verdicts(differences: list[Difference], level: float = 0.05) -> list[str]:
    """Classify each difference as ahead, behind or tie, with Holm's control of the family-wise error rate.

    Examples
    --------
    >>> verdicts([Difference(0.1, 0.05, 0.15, 0.001, 0.8), Difference(-0.01, -0.03, 0.01, 0.4, 0.45)])
    ['ahead', 'tie']
    """
    labels = ["tie"] * len(differences)
    for rank, i in enumerate(np.argsort([d.p for d in differences], kind="stable")):
        if differences[i].p > level / (len(differences) - rank):
            break
        labels[i] = "ahead" if differences[i].mean > 0 else "behind"
    return labels


def trials_to(curve: Array, goal: float) -> float:
    """The first trial, counted from 1, at which the best so far reaches the goal; infinite if it never does.

    >>> trials_to(np.array([0.2, 0.9, 0.9, 1.0]), 0.9), trials_to(np.array([0.2]), 0.9)
    (2.0, inf)
    """
    reached = np.flatnonzero(curve >= goal)
    return float(reached[0] + 1) if reached.size else float("inf")


def ratio_of_medians(
    first: Sequence[Array], second: Sequence[Array], rng: np.random.Generator, resamples: int = 9999
) -> tuple[float, float, float]:
    """The ratio of two tuners' medians over all runs, and its 95% interval by a bootstrap of the seeds of each landscape.

    Parameters
    ----------
    first, second : sequence of arrays, shape (seeds,)
        Costs on each landscape; infinite for a run that did not reach its goal.
    rng : numpy.random.Generator
    resamples : int
        Number of bootstrap samples.

    Examples
    --------
    >>> ratio, low, high = ratio_of_medians([np.arange(9, 12)], [np.arange(19, 22)], np.random.default_rng(0))
    >>> ratio, low < ratio < high
    (0.5, True)
    """
    ratio = np.median(np.concatenate(first)) / np.median(np.concatenate(second))
    above, below = (
        np.median(np.concatenate([rng.choice(runs, (resamples, len(runs))) for runs in of], axis=1), axis=1)
        for of in (first, second)
    )
    low, high = np.quantile(above / below, [0.025, 0.975], method="nearest")  # no interpolation between infinite ratios
    return float(ratio), float(low), float(high)
