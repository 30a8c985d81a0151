"""Numbers on a line and things without an order (Section 3, discrete and categorical parameters)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from autotvm_opevo._utils.validation import is_number
from autotvm_opevo.topology.base import LazySequence, Topology, vertices


class Discrete(Topology):
    """Some numbers; each is adjacent to the next smaller and the next larger.

    Parameters
    ----------
    values : iterable of numbers
        At least one; finite and all different; they are kept in increasing order.

    Raises
    ------
    ValueError
        If there is none, or one is no finite number or there twice.

    Examples
    --------
    >>> unroll = Discrete([0, 512, 1500])
    >>> unroll.neighbours(512), unroll.neighbours(1500)
    ([0, 1500], [512])
    """

    def __init__(self, values: Iterable[float]) -> None:
        given = vertices(values)
        for value in given:
            if not is_number(value):
                raise ValueError(f"values must be finite numbers, {value!r} given (Categorical takes anything)")
        self._values: list[float] = sorted(given)
        self._index = {value: i for i, value in enumerate(self._values)}
        self.size = len(self._values)
        if len(self._index) < self.size:
            raise ValueError(f"values must all be different, {given!r} given")

    def __getitem__(self, index: int) -> float:
        return self._values[self._vertex_number(index)]

    def index(self, value: Any) -> int:
        try:
            return self._index[value]
        except (KeyError, TypeError):
            raise self._no_vertex(value) from None

    def neighbours(self, value: Any) -> Sequence[float]:
        i = self.index(value)
        return self._values[max(i - 1, 0) : i] + self._values[i + 1 : i + 2]

    def __repr__(self) -> str:
        return f"Discrete({_shortened(self._values)})"


class Categorical(Topology):
    """Some things, each adjacent to all others.

    Values of different types are different, also when Python calls them equal (``True`` and ``1``).

    Parameters
    ----------
    values : iterable
        At least one; anything, all different; their order means nothing.

    Raises
    ------
    ValueError
        If there is none, or one is there twice.

    Examples
    --------
    >>> explicit = Categorical([False, True, "auto"])
    >>> explicit.neighbours(True)
    [False, 'auto']
    """

    def __init__(self, values: Iterable[Any]) -> None:
        self._values = vertices(values)
        self.size = len(self._values)
        self._index: dict[Any, int] = {}
        for i, value in enumerate(self._values):
            if self._index.setdefault(_identity(value), i) != i:
                raise ValueError(f"values must all be different, {value!r} is there twice")

    def __getitem__(self, index: int) -> Any:
        return self._values[self._vertex_number(index)]

    def index(self, value: Any) -> int:
        try:
            return self._index[_identity(value)]
        except KeyError:
            raise self._no_vertex(value) from None

    def neighbours(self, value: Any) -> Sequence[Any]:
        i = self.index(value)
        return LazySequence(self.size - 1, lambda k: self._values[k + (k >= i)])

    def __repr__(self) -> str:
        return f"Categorical({_shortened(self._values)})"


def _identity(value: Any) -> tuple[type, Any]:
    """What tells a value from others: its type and itself, or its text when it cannot be hashed."""
    if isinstance(value, np.generic):
        value = value.item()  # a numpy scalar is the number it holds
    try:
        hash(value)
    except TypeError:
        return type(value), repr(value)
    return type(value), value


def _shortened(values: list[Any]) -> str:
    if len(values) <= 8:
        return repr(values)
    return f"[{', '.join(map(repr, values[:4]))}, ..., {values[-1]!r}]"
