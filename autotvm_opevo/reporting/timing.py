"""Time that was spent, on each of several tasks that took turns and on all, without the pauses of a run that was gone on with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

Array = np.ndarray[tuple[int], np.dtype[np.float64]]

# What takes longer is no batch: 64 builds and runs that all reach their limits take half an hour.
_PAUSE = 3600.0
# What takes less is not worth a word.
_SHORT = 60.0


@dataclass(frozen=True)
class TimeSpent:
    """Of each task and of all together.

    Attributes
    ----------
    on_tasks : list of array of float
        Of every trial, in the order given, the seconds that were spent on its task up to it.
    together : array of float
        When trials ended, one after the other: seconds of tuning.
    pauses : list of float
        How many seconds each time nothing was measured; those of less than a minute are left out here, too.
    """

    on_tasks: list[Array]
    together: Array
    pauses: list[float]


def time_spent(times: Sequence[Array], starts: Sequence[float] = ()) -> TimeSpent:
    """What trials took: what had passed since the one before, of whichever task, or since tuning began.

    Parameters
    ----------
    times : sequence of array of float
        When the trials of each task ended, in seconds; not a number where nobody knows. Then nothing can be said of any task:
        what is unknown had its part of what passed.
    starts : sequence of float
        When tuning began and was gone on with, as far as that is known. What passed before is a pause, however short.

    Examples
    --------
    >>> found = time_spent([np.array([0.0, 10.0, 75.0]), np.array([70.0, 70.0])])
    >>> [list(map(float, seconds)) for seconds in found.on_tasks], list(map(float, found.together))
    ([[0.0, 10.0, 15.0], [60.0, 60.0]], [0.0, 10.0, 70.0, 70.0, 75.0])
    >>> found = time_spent([np.array([5.0, 8.0, 104.0])], starts=[0.0, 100.0, 500.0])
    >>> list(map(float, found.on_tasks[0])), found.pauses
    ([5.0, 8.0, 12.0], [92.0])
    """
    ended = np.concatenate([np.empty(0), *times])
    if not len(ended) or not np.isfinite(ended).all():
        return TimeSpent([np.empty(0) for _ in times], np.empty(0), [])
    order = np.argsort(ended, kind="stable")
    now, before = ended[order], np.concatenate([[-np.inf], ended[order[:-1]]])
    begun = np.concatenate([[-np.inf], np.sort(starts)])[np.searchsorted(np.sort(starts), now, side="right")]
    anew = begun > before  # the last time that tuning began is since the last trial
    gaps = np.where(anew, now - begun, now - before)
    paused = np.zeros(len(gaps))
    paused[anew] = begun[anew] - before[anew]
    long = ~anew & (gaps > _PAUSE)
    paused[long], gaps[long] = gaps[long], 0.0
    took = np.empty(len(ended))
    took[order] = gaps
    ends = np.cumsum([len(task) for task in times])
    on_tasks = [_summed(took[end - len(task) : end], task) for task, end in zip(times, ends)]
    return TimeSpent(on_tasks, np.cumsum(gaps), [float(pause) for pause in paused[1:] if pause >= _SHORT])


def _summed(took: Array, times: Array) -> Array:
    """Added up in the order of the times."""
    order, sums = np.argsort(times, kind="stable"), np.empty(len(times))
    sums[order] = np.cumsum(took[order])
    return sums
