"""The best so far of a run, as a fraction of the optimum."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
Run = dict[str, Any]  # a result of `benchmarks.runs.run`
Curves = dict[str, dict[str, Array]]  # by landscape and tuner, shape (seeds, trials)


def curve(run: Run) -> Array:
    """The best so far after every trial, shape (trials,)."""
    best = np.zeros(run["trials"])
    for trial, fraction, _ in run["steps"]:
        best[trial - 1 :] = fraction
    return best


def curves(runs: Iterable[Run]) -> Curves:
    """The best so far of all runs."""
    grouped: dict[str, dict[str, list[Array]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        grouped[run["landscape"]][run["tuner"]].append(curve(run))
    return {
        landscape: {tuner: np.array(some) for tuner, some in by.items()}
        for landscape, by in grouped.items()
    }


def seconds_to(run: Run, goal: float, seconds_per_trial: float) -> float:
    """When the best so far first reaches the goal, with a constant per trial and the tuner's own
    time; infinite if it never does.
    """
    return next(
        (trial * seconds_per_trial + own for trial, best, own in run["steps"] if best >= goal),
        float("inf"),
    )
