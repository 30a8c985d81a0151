"""Values of knobs: one of them, and statistics of all that were tried."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Value:
    """A value of a knob.

    Attributes
    ----------
    kind : {"tile", "inner tile", "order", "number", "annotation", "choice"}
        The type of the knob: a factorization, a factorization without its outermost part (which the log omits), a permutation, a
        number, one annotation per loop, or one of several options.
    value : hashable
        The vertex. For an inner tile: the known parts; for an annotation: the tuple of annotations.
    options : tuple
        All options of a choice; empty if unknown.
    innermost : int
        Upper bound of a tile's innermost part; 0 if unknown.
    """

    kind: str
    value: Hashable
    options: tuple[Hashable, ...] = ()
    innermost: int = 0


@dataclass
class ValueStats:
    """Statistics of one value.

    Attributes
    ----------
    trials : int
    best : float
        Lowest latency in seconds; infinite if all trials failed.
    successes : int
    logs, squares : float
        Sums of the logarithms of the successful trials' latencies, and of their squares.
    """

    trials: int = 0
    best: float = math.inf
    successes: int = 0
    logs: float = 0.0
    squares: float = 0.0

    def merge(self, other: ValueStats) -> None:
        """Add the trials of another log."""
        self.trials += other.trials
        self.best = min(self.best, other.best)
        self.successes += other.successes
        self.logs += other.logs
        self.squares += other.squares


@dataclass
class Knob:
    """A knob and statistics of the values that were tried. `kind`, `options` and `innermost` are as in `Value`.

    Examples
    --------
    >>> knob = Knob("tile")
    >>> for tile, latency in [((8, 1), 0.5), ((8, 1), 0.25), ((4, 2), 1.0), ((4, 2), 1.1), ((2, 4), math.inf)]:
    ...     knob.add(tile, latency)
    >>> knob.stats[8, 1].trials, knob.stats[8, 1].best, knob.trials
    (2, 0.25, 5)
    >>> round(knob.main_effect, 2)
    0.68
    """

    kind: str
    options: tuple[Hashable, ...] = ()
    innermost: int = 0
    stats: dict[Hashable, ValueStats] = field(default_factory=dict)

    @property
    def trials(self) -> int:
        """Number of trials that set this knob; not every sketch has every knob."""
        return sum(stats.trials for stats in self.stats.values())

    @property
    def main_effect(self) -> float:
        """Share of the variance of the trials' log latencies that this knob explains by itself; NaN with too few trials.

        It is the omega squared of a one-way analysis of variance (Hays 1963): what the number of values alone would explain is
        left out.
        """
        groups = [stats for stats in self.stats.values() if stats.successes]
        n, k = sum(group.successes for group in groups), len(groups)
        if n <= k:
            return math.nan
        mean = math.fsum(group.logs for group in groups) / n
        total = math.fsum(group.squares for group in groups) - n * mean**2
        between = math.fsum(group.logs**2 / group.successes for group in groups) - n * mean**2
        within = (total - between) / (n - k)
        if total <= 0:
            return math.nan
        return max(0.0, (between - (k - 1) * within) / (total + within))

    def add(self, value: Hashable, latency: float) -> None:
        """Add a trial with its latency in seconds, infinite for a failure."""
        stats = self.stats.get(value)
        if stats is None:
            stats = self.stats[value] = ValueStats()
        stats.trials += 1
        stats.best = min(stats.best, latency)
        if 0 < latency < math.inf:
            log = math.log(latency)
            stats.successes += 1
            stats.logs += log
            stats.squares += log * log

    def merge(self, value: Hashable, stats: ValueStats) -> None:
        """Add the trials of a value in another log."""
        self.stats.setdefault(value, ValueStats()).merge(stats)
