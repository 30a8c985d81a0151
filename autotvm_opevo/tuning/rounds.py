"""Alternatives timed in turn, round after round, until it is known which is the fastest. Imports no TVM."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import combinations
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from autotvm_opevo._utils.timeouts import run_with_timeout
from autotvm_opevo.tuning.confidence import Estimate, geometric_mean

if TYPE_CHECKING:
    from autotvm_opevo.tuning.programs import Timed

# Rounds before anything is decided, and until the comparison ends anyway.
MIN_ROUNDS = 5
MAX_ROUNDS = 100
# Probability that not all intervals hold, and the relative difference that does not matter.
_ALPHA, _INDIFFERENCE = 0.05, 0.01
# How often each alternative is timed in a round, unless this takes so many seconds: rounds tell more.
_REPEATS, _ROUND_SECONDS = 3, 0.5
# Seconds after which a round hangs, and that it has to end after Ctrl-C.
_ROUND_TIMEOUT = 600.0
GRACE = 5.0


class Rounds:
    """Latencies of alternatives by round, and which of them are told apart.

    Each round has its own memory, whose place alone makes a program faster or slower, and all alternatives in turn, so that a
    drift of the machine affects them alike. So ratios within a round are compared, and a round is one observation.

    Parameters
    ----------
    size : int
        Number of alternatives.
    contestants : sequence of int
        Those of which the fastest is wanted, by position; the intervals of their ratios hold together. All by default.

    Attributes
    ----------
    latencies : list of list of float
        By round, the seconds of each alternative.

    Examples
    --------
    >>> rounds = Rounds(2)
    >>> for noise in (1.01, 0.99, 1.0, 1.02, 0.98):
    ...     rounds.add([0.010, 0.012 * noise])
    >>> rounds.finished, rounds.fastest, f"{rounds.speedup(0, 1).value:.2f}"
    (True, 0, '1.20')
    """

    def __init__(self, size: int, contestants: Sequence[int] | None = None) -> None:
        self.latencies: list[list[float]] = []
        self.size = size
        self.contestants = list(range(size)) if contestants is None else list(contestants)

    def add(self, latencies: Sequence[float]) -> None:
        """Add a round."""
        self.latencies.append(list(latencies))

    def latency(self, i: int) -> Estimate:
        """Seconds of an alternative, a geometric mean over the rounds."""
        return geometric_mean([row[i] for row in self.latencies], _ALPHA)

    def speedup(self, i: int, j: int) -> Estimate:
        """How many times as fast as alternative `j` alternative `i` is."""
        pairs = sum(1 for _ in combinations(self.contestants, 2)) if {i, j} <= {*self.contestants} else 1
        return geometric_mean([row[j] / row[i] for row in self.latencies], _ALPHA / max(1, pairs))

    @property
    def fastest(self) -> int:
        """The contestant with the lowest latency, whether or not it is told apart from the others."""
        return min(self.contestants, key=lambda i: self.latency(i).value)

    @property
    def finished(self) -> bool:
        """Whether more rounds would tell nothing: the fastest is told apart from each of the others, or within 1% of it."""
        if len(self.latencies) < MIN_ROUNDS:
            return False
        fastest = self.fastest
        return all(is_decided(self.speedup(fastest, i)) for i in self.contestants if i != fastest)


def is_told_apart(speedup: Estimate) -> bool:
    """Whether the interval excludes that both are equally fast."""
    return not speedup.low <= 1.0 <= speedup.high


def is_slower(speedup: Estimate) -> bool:
    """Whether what is compared is slower, by a difference that is told apart and matters.

    >>> is_slower(Estimate(0.95, 0.93, 0.98)), is_slower(Estimate(0.95, 0.89, 1.02)), is_slower(Estimate(0.995, 0.99, 0.999))
    (True, False, False)
    """
    return speedup.high < 1.0 and speedup.value <= 1.0 - _INDIFFERENCE


def difference(speedup: Estimate) -> float:
    """The largest relative difference in the interval.

    >>> f"{difference(Estimate(1.0, 0.98, 1.03)):.3f}"
    '0.030'
    """
    return max(speedup.high, 1.0 / speedup.low if speedup.low > 0 else inf) - 1.0


def is_decided(speedup: Estimate) -> bool:
    """Whether two alternatives are told apart, or differ too little to matter."""
    return is_told_apart(speedup) or difference(speedup) < _INDIFFERENCE


def time_in_rounds(rounds: Rounds, alternatives: Sequence[Callable[[], Timed]], end: float, max_rounds: int = MAX_ROUNDS) -> str:
    """Time alternatives in turn, round after round; returns why it ended: ``"decided"``, ``"time limit"`` or ``"rounds"``.

    Parameters
    ----------
    rounds : Rounds
        Gets the latencies; after Ctrl-C it has those of all complete rounds.
    alternatives : sequence of callable
        Each returns a program in newly allocated memory, which is freed at the end of the round.
    end : float
        No round is begun after this time, by ``time.monotonic()``.
    max_rounds : int

    Raises
    ------
    TimeoutError
        If a round hangs.
    """
    while not rounds.finished:
        if len(rounds.latencies) >= max_rounds:
            return "rounds"
        if time.monotonic() >= end:
            return "time limit"
        first = len(rounds.latencies) % len(alternatives)  # whatever comes first in a round is in another place
        order = [*range(first, len(alternatives)), *range(first)]

        def time_round(order: Sequence[int] = order) -> list[float]:
            instances = [alternatives[i]() for i in order]
            end, timings = time.monotonic() + _ROUND_SECONDS, [instance.seconds for instance in instances]
            rows = [[seconds() for seconds in timings]]
            while len(rows) < _REPEATS and time.monotonic() < end:
                rows.append([seconds() for seconds in timings])
            medians = dict(zip(order, np.median(rows, axis=0).tolist()))
            return [medians[i] for i in range(len(order))]

        rounds.add(run_with_timeout(_ROUND_TIMEOUT, time_round, "a round of timings", GRACE))
    return "decided"
