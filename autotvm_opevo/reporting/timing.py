"""Time that was spent, on each of several tasks that took turns and on all, without the pauses of a run that was gone on with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

Array = np.ndarray[tuple[int], np.dtype[np.float64]]

# What takes longer is no batch: 64 builds and runs that all reach their limits take half an hour.
_PAUSE = 3600.0


@dataclass(frozen=True)
class Spent:
    """Of each task and of all together.

    Attributes
    ----------
    on_tasks : list of array of float
        Of every trial, in the order given, the seconds that were spent on its task up to it; empty where not all are known.
    together : array of float
        When trials ended, one after the other: seconds of tuning.
    pauses : list of float
        How many seconds each time nothing was measured.
    """

    on_tasks: list[Array]
    together: Array
    pauses: list[float]


def spent(times: Sequence[Array], starts: Sequence[float] = ()) -> Spent:
    """What trials took: what had passed since the one before, of whichever task, or since tuning began.

    Parameters
    ----------
    times : sequence of array of float
        When the trials of each task ended, in seconds; not a number where nobody knows.
    starts : sequence of float
        When tuning began and was gone on with, as far as that is known. What passed before is a pause, however short.

    Examples
    --------
    >>> found = spent([np.array([0.0, 10.0, 75.0]), np.array([70.0, 70.0]), np.array([np.nan])])
    >>> [list(map(float, seconds)) for seconds in found.on_tasks], list(map(float, found.together))
    ([[0.0, 10.0, 15.0], [60.0, 60.0], []], [0.0, 10.0, 70.0, 70.0, 75.0])
    >>> found = spent([np.array([5.0, 8.0, 104.0])], starts=[0.0, 100.0])
    >>> list(map(float, found.on_tasks[0])), found.pauses
    ([5.0, 8.0, 12.0], [92.0])
    """
    ended = np.concatenate([np.asarray(starts, float), *times])
    order = np.argsort(ended, kind="stable")[: np.isfinite(ended).sum()]
    gaps = np.diff(ended[order], prepend=ended[order[:1]])
    trials = order >= len(starts)
    paused = ((gaps > _PAUSE) & trials) | ((gaps > 0) & ~trials)
    pauses = gaps[paused].tolist()
    gaps[paused] = 0.0
    took = np.full(len(ended), np.nan)
    took[order] = gaps
    ends = len(starts) + np.cumsum([len(task) for task in times], dtype=int)
    on_tasks = [_summed(took[end - len(task) : end], task) for task, end in zip(times, ends)]
    return Spent(on_tasks, np.cumsum(gaps)[trials], pauses)


def _summed(took: Array, times: Array) -> Array:
    """In the order of the times; empty where not all are known."""
    if not np.isfinite(took).all():
        return np.empty(0)
    order, sums = np.argsort(times, kind="stable"), np.empty(len(times))
    sums[order] = np.cumsum(took[order])
    return sums
