"""Knobs: values, statistics of those that were tried, and their effect on the schedule in words."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

from autotvm_opevo._utils import jsonl
from autotvm_opevo._utils.text import printable


@dataclass(frozen=True)
class Value:
    """A value of a knob.

    Attributes
    ----------
    kind : {"tile", "inner tile", "order", "number", "annotation", "choice"}
        The type of the knob: a factorization, a factorization without its outermost part (which the
        log omits), a permutation, a number, one annotation per loop, or one of several options.
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
    """A knob and statistics of the values that were tried. `kind`, `options` and `innermost` are as
    in `Value`.

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


def format_value(value: Any) -> str:
    """Format a value as a label.

    >>> [format_value(value) for value in ((8, 2, 4), (0, 2, 1), ("none", "vec"), 64)]
    ['8x2x4', '0 2 1', 'none vec', '64']
    >>> format_value('["none", "vec"]')  # an annotation, as `KnobSpace` encodes it
    'none vec'
    """
    if isinstance(value, str) and value.startswith('["'):
        annotations = jsonl.load(value)
        # JSON's escapes are decoded
        value = value if annotations is jsonl.MALFORMED else tuple(map(printable, annotations))
    if isinstance(value, tuple):
        is_tile = all(isinstance(part, int) for part in value) and min(value, default=0) > 0
        return ("x" if is_tile else " ").join(map(str, value))
    return str(value)


def format_setting(name: str, value: Value) -> str:
    """Format a knob's name and the effect of its value on the schedule.

    >>> format_setting("tile_y", Value("inner tile", (2, 8)))
    'tile_y: ?x2x8'
    >>> format_setting("order", Value("order", (0, 2, 1)))
    'order: loops in the order 0 2 1'
    >>> format_setting("matmul, loop 2, 64 iterations", Value("tile", (8, 1, 8)))
    'matmul, loop 2, 64 iterations: 8x1x8'
    >>> format_setting("location of pad", Value("number", -2))
    'location of pad: inlined'
    >>> format_setting("sketch", Value("choice", "3"))
    'sketch: 3'
    >>> format_setting("vec", Value("annotation", ("none", "vec")))
    'vec: not annotated, vectorized'
    """
    order = "loops in the order " if value.kind == "order" else ""
    return f"{name}: {order}{describe_value(name, value)}"


def describe_value(name: str, value: Value) -> str:
    """Describe the effect of a knob's value on the schedule, without the knob's name."""
    text = format_value(value.value)
    if value.kind == "inner tile":
        return f"?x{text}"
    if value.kind == "annotation":
        return ", ".join(
            _DESCRIPTIONS.get(annotation, annotation) for annotation in text.split(" ")
        )
    if value.kind == "choice":
        return _DESCRIPTIONS.get(text, text)
    if name.startswith("location of "):
        return {"-2": "inlined", "-1": "outside all loops"}.get(text, f"in loop {text}")
    return text


_DESCRIPTIONS = {
    "vec": "vectorized",
    "unroll": "unrolled",
    "none": "not annotated",
    "true": "yes",
    "false": "no",
}


def format_schedule(knobs: Mapping[str, Value]) -> list[str]:
    """Format the knobs of a configuration, except tiles of loops with one iteration."""
    return [format_setting(name, value) for name, value in knobs.items() if not _is_trivial(value)]


def _is_trivial(value: Value) -> bool:
    return value.kind == "tile" and isinstance(value.value, tuple) and set(value.value) == {1}
