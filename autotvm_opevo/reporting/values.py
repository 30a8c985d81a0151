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
    """

    trials: int = 0
    best: float = math.inf

    def merge(self, other: ValueStats) -> None:
        """Add the trials of another log."""
        self.trials += other.trials
        self.best = min(self.best, other.best)


@dataclass
class Knob:
    """A knob and statistics of the values that were tried. `kind`, `options` and `innermost` are as in `Value`.

    Examples
    --------
    >>> knob = Knob("tile")
    >>> for tile, latency in [((8, 1), 0.5), ((8, 1), 0.25), ((2, 4), math.inf)]:
    ...     knob.add(tile, latency)
    >>> knob.stats[8, 1].trials, knob.stats[8, 1].best, knob.trials
    (2, 0.25, 3)
    """

    kind: str
    options: tuple[Hashable, ...] = ()
    innermost: int = 0
    stats: dict[Hashable, ValueStats] = field(default_factory=dict)

    @property
    def trials(self) -> int:
        """Number of trials that set this knob; not every sketch has every knob."""
        return sum(stats.trials for stats in self.stats.values())

    def add(self, value: Hashable, latency: float) -> None:
        """Add a trial with its latency in seconds, infinite for a failure."""
        stats = self.stats.get(value)
        if stats is None:
            stats = self.stats[value] = ValueStats()
        stats.trials += 1
        stats.best = min(stats.best, latency)

    def merge(self, value: Hashable, stats: ValueStats) -> None:
        """Add the trials of a value in another log."""
        self.stats.setdefault(value, ValueStats()).merge(stats)
