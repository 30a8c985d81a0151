"""Configurations in words: their knobs, and the values of each."""

from __future__ import annotations

import math
from collections.abc import Mapping

from autotvm_opevo.reporting.trials import Value


def describe_value(name: str, value: Value, extent: int = 0) -> str:
    """Describe the value of a knob; `extent` is its loop's, if known: AutoTVM's log omits the
    outermost part of a tile.

    >>> inner = Value("inner tile", (2, 8))
    >>> describe_value("tile_y", inner, 64), describe_value("tile_y", inner)
    ('4x2x8', '?x2x8')
    >>> describe_value("location of pad", Value("number", -2))
    'inlined'
    """
    parts = value.value if isinstance(value.value, tuple) else (value.value,)
    text = ("x" if value.kind.endswith("tile") else " ").join(map(str, parts))
    if value.kind == "inner tile":
        outermost, rest = divmod(extent, math.prod(parts))
        return f"?x{text}" if rest or not outermost else f"{outermost}x{text}"
    if name.startswith("location of "):
        return {"-2": "inlined", "-1": "outside all loops"}.get(text, f"in loop {text}")
    return text


def format_schedule(knobs: Mapping[str, Value], extents: Mapping[str, int]) -> str:
    """Format the knobs of a configuration, except tiles of loops with one iteration.

    >>> format_schedule({"y": Value("tile", (8, 1, 8)), "x": Value("tile", (1, 1, 1))}, {})
    'y: 8x1x8'
    """
    texts = []
    for name, value in knobs.items():
        text = describe_value(name, value, extents.get(name, 0))
        if not (value.kind.endswith("tile") and set(text.split("x")) == {"1"}):
            texts.append(f"{name}: {text}")
    return "; ".join(texts)
