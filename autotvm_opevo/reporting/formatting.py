"""Knobs' values in words."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autotvm_opevo.reporting.trials import Value


def printable(text: Any) -> str:
    """A log's text without what no page can show: control characters and halves of characters.

    >>> printable("conv2d\\x00\\ud800"), printable("größe")
    ('conv2d\ufffd\ufffd', 'größe')
    """
    return "".join(c if c.isprintable() else "\ufffd" for c in str(text))


def in_words(value: Any) -> str:
    """As a label: a tile's parts, an order's loops, all else as it is.

    >>> in_words((8, 2, 4)), in_words((0, 2, 1)), in_words(("none", "vec")), in_words('["none", "vec"]'), in_words(64)
    ('8x2x4', '0 2 1', 'none vec', 'none vec', '64')
    """
    if isinstance(value, str) and value.startswith('["'):  # what `KnobSpace` makes of an annotation
        value = tuple(json.loads(value))
    if isinstance(value, tuple):
        product = all(isinstance(part, int) for part in value) and min(value, default=0) > 0
        return ("x" if product else " ").join(map(str, value))
    return str(value)


def setting(name: str, value: Value) -> str:
    """A knob's value as what it does to a schedule, with the knob's name.

    >>> from autotvm_opevo.reporting.trials import Value
    >>> setting("tile_y", Value("inner tile", (2, 8))), setting("order", Value("order", (0, 2, 1)))
    ('tile_y: ?x2x8', 'order: loops in the order 0 2 1')
    >>> setting("matmul, loop 2, 64 iterations", Value("tile", (8, 1, 8))), setting("location of pad", Value("number", -2))
    ('matmul, loop 2, 64 iterations: 8x1x8', 'location of pad: inlined')
    >>> setting("vec", Value("annotation", ("none", "vec"))), setting("sketch", Value("choice", "3"))
    ('vec: left as it is, vectorized', 'sketch: 3')
    """
    order = "loops in the order " if value.kind == "order" else ""
    return f"{name}: {order}{meaning(name, value)}"


def meaning(name: str, value: Value) -> str:
    """What a knob's value is, or does to a schedule."""
    words = in_words(value.value)
    if value.kind == "inner tile":
        words = f"?x{words}"
    elif value.kind == "annotation":
        words = ", ".join(_WORDS.get(word, word) for word in words.split(" "))
    elif value.kind == "choice":
        words = _WORDS.get(words, words)
    elif name.startswith("location of "):
        words = {"-2": "inlined", "-1": "outside of all loops"}.get(words, f"in loop {words}")
    return words


_WORDS = {"vec": "vectorized", "unroll": "unrolled", "none": "left as it is", "true": "yes", "false": "no"}


def schedule(knobs: Mapping[str, Value]) -> list[str]:
    """All knobs of a configuration, one line each; those that leave a loop of one iteration as it is are left out."""
    return [setting(name, value) for name, value in knobs.items() if not _nothing(value)]


def _nothing(value: Value) -> bool:
    return value.kind == "tile" and isinstance(value.value, tuple) and set(value.value) == {1}
