"""Confirmation: the best trials of a task, timed again in turn until one of them is known to be the fastest. Imports no TVM.

The lowest of many noisy measurements belongs to the luckiest trial as much as to the fastest. So the finalists race (Maron and
Moore, 1994): each round times all of them, so that a drift of the machine affects them alike, and one leaves when it is slower
than the leader with confidence.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
from scipy import stats

# Number of finalists, and how much slower than the best of its task one may have been, since no noise is as large.
FINALISTS = 5
MAX_RATIO = 1.5
# Largest share of the duration of a tuning run.
CONFIRMATION_SHARE = 0.03


# Rounds before anything is decided, and until the race ends anyway.
MIN_ROUNDS = 3
_MAX_ROUNDS = 15
# Confidence of the one-sided interval, and the relative difference that does not matter. Looking after every round makes it less
# than that, unlike in `confidence`: there is little time, and to drop one that is nearly as fast costs little.
_CONFIDENCE, _INDIFFERENCE = 0.95, 0.01


def end_of_trials(start: float, time_limit: float | None) -> float:
    """When no further trial is started, so that the confirmation is within the time limit, too.

    >>> end_of_trials(100.0, 600.0), end_of_trials(100.0, None)
    (682.0, inf)
    """
    return inf if time_limit is None else start + (1 - CONFIRMATION_SHARE) * time_limit


@dataclass(frozen=True)
class Confirmed:
    """The winner of a task's race.

    Attributes
    ----------
    task : int
        Its position among the tasks.
    record : object
        Of the adapter's TVM, with the confirmed time.
    latencies : list of float
        All of them, in seconds.
    ties : int
        Number of others that may be as fast.
    """

    task: int
    record: Any
    latencies: list[float]
    ties: int


class Race:
    """Latencies of a task's finalists, and which of them may still be the fastest.

    Parameters
    ----------
    size : int
        Number of finalists, at least 1.

    Attributes
    ----------
    racing : list of int
        Positions of those that may be the fastest.
    finished : bool
        Whether another round would tell nothing that matters.

    Examples
    --------
    >>> race = Race(3)
    >>> for _ in range(3):
    ...     race.add({finalist: [1.0, 1.2, 1.5][finalist] for finalist in race.order})
    >>> race.racing, race.finished, race.winner, race.latency, race.ties
    ([0], True, 0, 1.0, 0)
    """

    def __init__(self, size: int) -> None:
        self._rounds: list[list[float]] = []
        self._size = size
        self.racing = list(range(size))
        self.finished = False

    @property
    def order(self) -> list[int]:
        """The order to time them in: each round begins with another, since a new process takes a while to be at full speed."""
        first = len(self._rounds) % max(1, len(self.racing))
        return self.racing[first:] + self.racing[:first]

    def add(self, latencies: Mapping[int, float]) -> None:
        """Add a round: the latency in seconds of each finalist in `racing`, infinite after a failure."""
        row = [latencies.get(i, inf) for i in range(self._size)]
        self._rounds.append(row)
        self.racing = [i for i in self.racing if row[i] < inf]
        leader = self.winner
        if leader is not None:
            slower = {i: self._interval(i, leader) for i in self.racing if i != leader}
            self.racing = [i for i in self.racing if i == leader or slower[i][0] <= 0]
            self.finished = all(slower[i][1] < _INDIFFERENCE for i in self.racing if i != leader)
        self.finished |= not self.racing or len(self._rounds) >= _MAX_ROUNDS

    @property
    def winner(self) -> int | None:
        """The finalist with the lowest median; None in the first rounds, or if all have failed."""
        decided = len(self._rounds) >= MIN_ROUNDS and self.racing
        return min(self.racing, key=lambda i: np.median(self.latencies(i))) if decided else None

    @property
    def ties(self) -> int:
        """Number of finalists that may be as fast as the winner."""
        return max(0, len(self.racing) - 1)

    @property
    def latency(self) -> float:
        """The winner's median latency in seconds; infinite without a winner."""
        return float(np.median(self.latencies(self.winner))) if self.winner is not None else inf

    def latencies(self, finalist: int) -> list[float]:
        """Latencies of a finalist in seconds, in the order of the rounds."""
        return [row[finalist] for row in self._rounds if row[finalist] < inf]

    def _interval(self, finalist: int, leader: int) -> tuple[float, float]:
        """Confidence interval, over rounds, of the logarithm of how many times the leader's latency a finalist has."""
        ratios = np.log(self.latencies(finalist)) - np.log(self.latencies(leader))
        margin = stats.t.ppf(_CONFIDENCE, len(ratios) - 1) * stats.sem(ratios)
        return float(ratios.mean() - margin), float(ratios.mean() + margin)


def race(
    sizes: Sequence[int], time_again: Callable[[int, int], float], restart: Callable[[], object], end: float
) -> Iterator[tuple[int, Race]]:
    """Let the finalists of several tasks race, the first tasks first when time is short.

    Yields the position and the race of each task with a winner, as soon as it is finished, or when the time is over.

    Parameters
    ----------
    sizes : sequence of int
        Number of finalists of each task. One wins its race, and gets a latency that is confirmed.
    time_again : callable
        Returns the seconds of one run of a task's finalist, both by position; infinite if it fails now.
    restart : callable
        Called before each round: what follows runs in a new process if that matters, since its memory lies elsewhere, which alone
        makes a kernel of a CPU faster or slower.
    end : float
        When to end, by ``time.monotonic()``.
    """
    races = {i: Race(size) for i, size in enumerate(sizes) if size}
    turns = [i for i in races for _ in range(MIN_ROUNDS)]
    while turns and time.monotonic() < end:
        for i in turns:
            if i in races and time.monotonic() < end:
                restart()
                races[i].add({finalist: time_again(i, finalist) for finalist in races[i].order})
                if races[i].finished:
                    finished = races.pop(i)
                    if finished.winner is not None:
                        yield i, finished
        turns = list(races)
    yield from ((i, one) for i, one in races.items() if one.winner is not None)
