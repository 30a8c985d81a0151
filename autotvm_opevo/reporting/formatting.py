"""Formatting of knob values and durations for readers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autotvm_opevo._utils import jsonl
from autotvm_opevo.reporting.values import Value


def printable(text: Any) -> str:
    """Replace characters that a page cannot show: control characters and lone surrogates.

    >>> printable("conv2d\\x00\\ud800"), printable("größe")
    ('conv2d\ufffd\ufffd', 'größe')
    """
    return "".join(c if c.isprintable() else "\ufffd" for c in str(text))


def format_duration(seconds: float) -> str:
    """Format a duration with the unit that suits it.

    >>> format_duration(3.14), format_duration(100), format_duration(900), format_duration(9000)
    ('3.1 s', '100 s', '15 min', '2.5 h')
    """
    if seconds < 180:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def format_value(value: Any) -> str:
    """Format a value as a label.

    >>> format_value((8, 2, 4)), format_value((0, 2, 1)), format_value(("none", "vec")), format_value(64)
    ('8x2x4', '0 2 1', 'none vec', '64')
    >>> format_value('["none", "vec"]')  # an annotation, as `KnobSpace` encodes it
    'none vec'
    """
    if isinstance(value, str) and value.startswith('["'):
        annotations = jsonl.load(value)
        value = value if annotations is jsonl.MALFORMED else tuple(map(printable, annotations))  # JSON's escapes are decoded
    if isinstance(value, tuple):
        is_tile = all(isinstance(part, int) for part in value) and min(value, default=0) > 0
        return ("x" if is_tile else " ").join(map(str, value))
    return str(value)


def format_setting(name: str, value: Value) -> str:
    """Format a knob's name and the effect of its value on the schedule.

    >>> format_setting("tile_y", Value("inner tile", (2, 8))), format_setting("order", Value("order", (0, 2, 1)))
    ('tile_y: ?x2x8', 'order: loops in the order 0 2 1')
    >>> format_setting("matmul, loop 2, 64 iterations", Value("tile", (8, 1, 8)))
    'matmul, loop 2, 64 iterations: 8x1x8'
    >>> format_setting("location of pad", Value("number", -2)), format_setting("sketch", Value("choice", "3"))
    ('location of pad: inlined', 'sketch: 3')
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
        return ", ".join(_DESCRIPTIONS.get(annotation, annotation) for annotation in text.split(" "))
    if value.kind == "choice":
        return _DESCRIPTIONS.get(text, text)
    if name.startswith("location of "):
        return {"-2": "inlined", "-1": "outside all loops"}.get(text, f"in loop {text}")
    return text


_DESCRIPTIONS = {"vec": "vectorized", "unroll": "unrolled", "none": "not annotated", "true": "yes", "false": "no"}


def format_schedule(knobs: Mapping[str, Value]) -> list[str]:
    """Format the knobs of a configuration, except tiles of loops with one iteration."""
    return [format_setting(name, value) for name, value in knobs.items() if not _is_trivial(value)]


def _is_trivial(value: Value) -> bool:
    return value.kind == "tile" and isinstance(value.value, tuple) and set(value.value) == {1}
