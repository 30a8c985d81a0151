"""Checks of arguments, with errors that name what was given and what is allowed."""

from __future__ import annotations

import math
import operator
from numbers import Real
from typing import Any

import numpy as np


def as_integer(name: str, value: Any, at_least: int = 1) -> int:
    """`value` as a plain int, or a `ValueError` that names the argument and what is allowed."""
    try:
        number = operator.index(value)
    except TypeError:
        number = at_least - 1
    if number < at_least or isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{name} must be an integer of at least {at_least}, {value!r} given")
    return number


def is_number(value: Any) -> bool:
    """Whether `value` is a finite number, however large an integer."""
    number: Any = value
    return isinstance(value, Real) and bool(abs(number) < math.inf)
