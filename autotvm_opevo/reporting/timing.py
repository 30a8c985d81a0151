"""Time spent tuning, overall and per task when tasks take turns, without the pauses between runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

Array = np.ndarray[tuple[int], np.dtype[np.float64]]

# Longer gaps are pauses: a batch of 64 builds and runs that all time out takes half an hour.
_LONGEST_BATCH = 3600.0
# Shorter pauses are not reported.
_SHORTEST_PAUSE = 60.0


@dataclass(frozen=True)
class TimeSpent:
    """Time spent tuning.

    Attributes
    ----------
    per_task : list of array of float
        For each task, the seconds spent on it until the end of each of its trials.
    overall : array of float
        Seconds of tuning until the end of each trial, in order of time.
    pauses : list of float
        Duration of each pause in seconds. Pauses of less than a minute are left out.
    """

    per_task: list[Array]
    overall: Array
    pauses: list[float]


def time_spent(times: Sequence[Array], starts: Sequence[float] = (), ready: Sequence[float] = ()) -> TimeSpent:
    """Compute the time spent on each task. A trial takes the time since the previous one, or since measuring began.

    Parameters
    ----------
    times : sequence of array of float
        For each task, the timestamps in seconds at which its trials ended. If any is NaN, the result is empty: the unknown trials
        took an unknown part of the time.
    starts : sequence of float
        Timestamps at which runs started, as far as known. The time between the last trial before a start and the start is a
        pause, however short.
    ready : sequence of float
        Timestamps at which runs began to measure, as far as known. What they took to start counts as tuning, but as no task's.

    Examples
    --------
    >>> time = time_spent([np.array([0.0, 10.0, 75.0]), np.array([70.0, 70.0])])
    >>> [list(map(float, seconds)) for seconds in time.per_task], list(map(float, time.overall))
    ([[0.0, 10.0, 15.0], [60.0, 60.0]], [0.0, 10.0, 70.0, 70.0, 75.0])
    >>> time = time_spent([np.array([5.0, 8.0, 104.0])], starts=[0.0, 100.0, 500.0])
    >>> list(map(float, time.per_task[0])), time.pauses
    ([5.0, 8.0, 12.0], [92.0])
    >>> time = time_spent([np.array([5.0, 8.0])], starts=[0.0], ready=[3.0])
    >>> list(map(float, time.per_task[0])), list(map(float, time.overall))
    ([2.0, 5.0], [5.0, 8.0])
    """
    ended = np.concatenate([np.empty(0), *times])
    if not len(ended) or not np.isfinite(ended).all():
        return TimeSpent([np.empty(0) for _ in times], np.empty(0), [])
    order = np.argsort(ended, kind="stable")
    now, previous = ended[order], np.concatenate([[-np.inf], ended[order[:-1]]])
    last_start, last_ready = _last(starts, now), _last(ready, now)
    first_of_run = last_start > previous
    gaps = np.where(first_of_run, now - last_start, now - previous)
    paused = np.zeros(len(gaps))
    paused[first_of_run] = last_start[first_of_run] - previous[first_of_run]
    long = ~first_of_run & (gaps > _LONGEST_BATCH)
    paused[long], gaps[long] = gaps[long], 0.0
    durations = np.empty(len(ended))
    starting = first_of_run & (last_ready > last_start)
    gaps_of_tasks = gaps.copy()
    gaps_of_tasks[starting] = now[starting] - last_ready[starting]
    durations[order] = gaps_of_tasks
    ends = np.cumsum([len(task) for task in times])
    per_task = [_cumulative(durations[end - len(task) : end], task) for task, end in zip(times, ends)]
    return TimeSpent(per_task, np.cumsum(gaps), [float(pause) for pause in paused[1:] if pause >= _SHORTEST_PAUSE])


def _last(moments: Sequence[float], now: Array) -> Array:
    """The last of some moments before each time; minus infinity if there is none."""
    ordered = np.sort(moments)
    last: Array = np.concatenate([[-np.inf], ordered])[np.searchsorted(ordered, now, side="right")]
    return last


def _cumulative(durations: Array, times: Array) -> Array:
    """Cumulative sum in order of time."""
    order, sums = np.argsort(times, kind="stable"), np.empty(len(times))
    sums[order] = np.cumsum(durations[order])
    return sums
