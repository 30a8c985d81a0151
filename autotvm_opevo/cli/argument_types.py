"""Types of command line arguments for ``argparse``."""

from __future__ import annotations

import json
import math
from argparse import ArgumentTypeError
from typing import Any

# Seconds that a build and a run may take by default.
TIMEOUT = 20.0
# Seconds.
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


def positive(text: str) -> int:
    """An integer of at least 1.

    >>> positive("8")
    8
    """
    if not text.isdecimal() or int(text) < 1:
        raise _must_be("an integer of at least 1", text)
    return int(text)


def duration(text: str) -> float:
    """A finite, positive time, in seconds unless it has a unit: s, m or h.

    >>> duration("90"), duration("45s"), duration("90m"), duration("2h")
    (90.0, 45.0, 5400.0, 7200.0)
    """
    number, unit = (text[:-1], text[-1]) if text[-1:] in _UNITS else (text, "s")
    try:
        seconds = _UNITS[unit] * float(number)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise _must_be("a positive number of seconds, or such as 45s, 90m or 2h", text)
    return seconds


def shape(text: str) -> tuple[int, ...]:
    """The extents of a tensor.

    >>> shape("1x3x224x224")
    (1, 3, 224, 224)
    """
    extents = text.split("x")
    if not all(extent.isdecimal() and int(extent) > 0 for extent in extents):
        raise _must_be("extents of at least 1, such as 1x3x224x224", text)
    return tuple(map(int, extents))


def named_shape(text: str) -> tuple[str, tuple[int, ...]]:
    """The name and shape of a model's input; a scalar has no extents.

    >>> named_shape("data=1x3x224x224"), named_shape("threshold=")
    (('data', (1, 3, 224, 224)), ('threshold', ()))
    """
    name, separator, extents = text.rpartition("=")  # a name may have one, too
    if not separator:
        raise _must_be("an input's name and shape, such as data=1x3x224x224", text)
    try:
        return name, shape(extents) if extents else ()
    except ArgumentTypeError as error:
        raise ArgumentTypeError(f"{error} for {name}") from None


def attribute(text: str) -> tuple[str, Any]:
    """The name and JSON value of an operator's attribute.

    >>> attribute("strides=[2,2]")
    ('strides', [2, 2])
    """
    name, _, value = text.partition("=")
    try:
        return name, json.loads(value)
    except ValueError:
        raise _must_be("a name and a value in JSON, such as strides=[2,2]", text) from None


def address(text: str) -> tuple[str, int]:
    """A host and a port; this machine without a host.

    >>> address("10.0.0.7:9190"), address(":9190"), address("[::1]:9190")
    (('10.0.0.7', 9190), ('127.0.0.1', 9190), ('::1', 9190))
    """
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or not 0 < int(port) < 65_536:
        raise _must_be("a host and a port, such as 127.0.0.1:9190", text)
    return host.strip("[]") or "127.0.0.1", int(port)


def _must_be(what: str, text: str) -> ArgumentTypeError:
    return ArgumentTypeError(f"must be {what}, {text!r} given")
