"""Validate arguments; errors name the argument, what is allowed and what was given."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from numbers import Real
from os import PathLike
from typing import Any, Union

import numpy as np

AnyPath = Union[str, PathLike[str]]


def as_paths(paths: AnyPath | Iterable[AnyPath]) -> list[AnyPath]:
    """One path, or several, as a list.

    >>> as_paths("log.json"), as_paths(())
    (['log.json'], [])
    """
    return [paths] if isinstance(paths, (str, PathLike)) else list(paths)


def as_integer(name: str, value: Any, at_least: int = 1) -> int:
    """Convert to a plain int of at least `at_least`; `ValueError` for anything else, or a bool.

    >>> as_integer("trials", 0)
    Traceback (most recent call last):
    ValueError: trials must be an integer of at least 1, 0 given
    """
    try:
        number = operator.index(value)
    except TypeError:
        number = at_least - 1
    if number < at_least or isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{name} must be an integer of at least {at_least}, {value!r} given")
    return number


def as_seconds(name: str, value: Any) -> float:
    """Convert to a positive duration in seconds, which may be infinite; `ValueError` for anything
    else.

    >>> as_seconds("time_limit", -1)
    Traceback (most recent call last):
    ValueError: time_limit must be a positive number of seconds, -1 given
    """
    try:
        number = float(value) if isinstance(value, Real) and not isinstance(value, bool) else 0.0
    except OverflowError:  # of integers
        number = math.inf
    if not number > 0:
        raise ValueError(f"{name} must be a positive number of seconds, {value!r} given")
    return number


def as_probability(name: str, value: Any) -> float:
    """Convert to a float from 0 to 1; `ValueError` for anything else.

    >>> as_probability("mutation_rate", 1)
    1.0
    """
    if not is_number(value) or not 0 <= value <= 1:
        raise ValueError(f"{name} must be between 0 and 1, {value!r} given")
    return float(value)


def is_number(value: Any) -> bool:
    """Whether `value` is a finite real number; integers beyond the range of floats are.

    >>> is_number(10**400), is_number(float("nan")), is_number("1")
    (True, False, False)
    """
    number: Any = value
    return isinstance(value, Real) and bool(abs(number) < math.inf)
