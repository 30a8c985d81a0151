"""What runs of several tuners on several landscapes allow to say.

A tuner's results are an array of shape (landscapes, seeds). The k-th seeds of two tuners on a landscape are a pair.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Difference:
    """One tuner less another.

    Attributes
    ----------
    mean : float
        Over landscapes, of the mean over seeds.
    low, high : float
        The 95% confidence interval of that mean, by a bootstrap of the pairs within each landscape: it is about seeds, on these
        landscapes, and says nothing of others.
    p : float
        How often a difference as large, either way, comes from nothing: the pairs' signs are flipped at random.
    chance : float
        The effect's size: the probability that a run of the first is better than one of the second, ties counted half
        (Vargha and Delaney's A), in the mean over landscapes. 0.5 is no difference.
    """

    mean: float
    low: float
    high: float
    p: float
    chance: float


def difference(first: Array, second: Array, rng: np.random.Generator, resamples: int = 9999) -> Difference:
    """Compare two tuners by results of which higher is better.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> shift = difference(rng.normal(0.2, 0.1, (3, 20)), rng.normal(0.0, 0.1, (3, 20)), rng)
    >>> shift.low < 0.2 < shift.high, shift.p < 0.01, round(shift.chance, 1)
    (True, True, 0.9)
    """
    gaps = first - second
    landscapes, seeds = gaps.shape
    drawn = rng.integers(seeds, size=(resamples, landscapes, seeds))
    means = np.take_along_axis(np.broadcast_to(gaps, drawn.shape), drawn, axis=2).mean(axis=(1, 2))
    low, high = np.quantile(means, [0.025, 0.975])
    flipped = rng.choice([-1.0, 1.0], (resamples, gaps.size)) @ gaps.ravel() / gaps.size
    extreme = np.count_nonzero(np.abs(flipped) >= abs(gaps.mean()) - 1e-12)
    chance = np.mean([stats.mannwhitneyu(a, b).statistic / seeds**2 for a, b in zip(first, second)])
    return Difference(float(gaps.mean()), float(low), float(high), (extreme + 1) / (resamples + 1), float(chance))


def verdicts(differences: list[Difference], level: float = 0.05) -> list[str]:
    """Ahead, behind or tie for each, so that all of them together are wrong with a probability of at most `level` (Holm).

    Examples
    --------
    >>> verdicts([Difference(0.1, 0.05, 0.15, 0.001, 0.8), Difference(-0.01, -0.03, 0.01, 0.4, 0.45)])
    ['ahead', 'tie']
    """
    said = ["tie"] * len(differences)
    for rank, i in enumerate(np.argsort([d.p for d in differences], kind="stable")):
        if differences[i].p > level / (len(differences) - rank):
            break
        said[i] = "ahead" if differences[i].mean > 0 else "behind"
    return said


def trials_to(curve: Array, goal: float) -> float:
    """The first trial, from 1, at which the best so far has reached the goal; infinite if none has.

    >>> trials_to(np.array([0.2, 0.9, 0.9, 1.0]), 0.9), trials_to(np.array([0.2]), 0.9)
    (2.0, inf)
    """
    reached = np.flatnonzero(curve >= goal)
    return float(reached[0] + 1) if reached.size else float("inf")
