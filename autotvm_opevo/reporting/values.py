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
    """Statistics of one value: the number of trials, and their best latency in seconds (infinite if all failed)."""

    trials: int = 0
    best: float = math.inf


@dataclass
class Knob:
    """A knob and statistics of the values that were tried. `kind`, `options` and `innermost` are as in `Value`.

    Examples
    --------
    >>> knob = Knob("tile")
    >>> knob.add((8, 1), trials=1, best=0.5)
    >>> knob.add((8, 1), trials=2, best=0.25)
    >>> knob.stats, knob.trials
    ({(8, 1): ValueStats(trials=3, best=0.25)}, 3)
    """

    kind: str
    options: tuple[Hashable, ...] = ()
    innermost: int = 0
    stats: dict[Hashable, ValueStats] = field(default_factory=dict)

    @property
    def trials(self) -> int:
        """Number of trials that set this knob; not every sketch has every knob."""
        return sum(stats.trials for stats in self.stats.values())

    def add(self, value: Hashable, trials: int, best: float) -> None:
        """Add a number of trials of a value and their best latency in seconds."""
        stats = self.stats.get(value)
        if stats is None:
            stats = self.stats[value] = ValueStats()
        stats.trials += trials
        stats.best = min(stats.best, best)
