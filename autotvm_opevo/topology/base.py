"""`Topology`, the base class of all knobs, and helpers for its subclasses."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np


class Graph(Protocol):
    """What `InducedSubgraph` needs of a graph, which may be infinite."""

    def neighbours(self, value: Any) -> Sequence[Any]:
        """Return the values adjacent to `value`, without repetition and without `value` itself."""

    def coordinates(self, value: Any) -> tuple[int, ...]:
        """Return integer coordinates of `value` whose L1 distance approximates the distance on the graph."""


class Topology(ABC):
    """The values of a knob as the vertices of an undirected graph, ``G = (V, E)`` of Section 3.

    A subclass sets `size`, the number of vertices, and implements `__getitem__`, `index` and `neighbours`. ``len`` returns
    `size` too, but Python limits it to 2**63 - 1.
    """

    size: int

    @abstractmethod
    def __getitem__(self, index: int) -> Any:
        """Return the vertex at `index`, 0 <= index < size; raises `IndexError` if it is out of range."""

    @abstractmethod
    def index(self, value: Any) -> int:
        """Return the index of the vertex `value`; raises `ValueError` if it is not a vertex."""

    @abstractmethod
    def neighbours(self, value: Any) -> Sequence[Any]:
        """Return the values adjacent to `value`, ``S(value)`` of Section 4.3, without repetition and without `value` itself.

        Raises `ValueError` if `value` is not a vertex.
        """

    def coordinates(self, value: Any) -> tuple[int, ...]:
        """Return integer coordinates whose L1 distance grows with the distance on the graph, and is not 0 between neighbours.

        `InducedSubgraph` adds bridges where this distance is smallest, and the kernel of the Gaussian process takes it for the
        number of steps. Defaults to the vertex's index.
        """
        return (self.index(value),)

    def sample(self, rng: np.random.Generator) -> Any:
        """Draw a vertex uniformly at random."""
        return self[_randbelow(self.size, rng)]

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(self.size))

    def __contains__(self, value: Any) -> bool:
        try:
            self.index(value)
        except ValueError:
            return False
        return True

    def _check_index(self, index: int) -> int:
        """Return `index` as a plain int; raises `IndexError` if it is out of range."""
        index = operator.index(index)
        if not 0 <= index < self.size:
            raise IndexError(f"vertex index {index} given, allowed for {self!r} are 0 to {self.size - 1}")
        return index

    def _invalid_value(self, value: Any) -> ValueError:
        """The error to raise for a value that is not a vertex."""
        return ValueError(f"value {value!r} given, allowed are the {self.size} vertices of {self!r}, such as {self[0]!r}")


class LazySequence(Sequence[Any]):
    """A sequence that computes its elements on access: a walk looks at one neighbour of many."""

    def __init__(self, size: int, element: Callable[[int], Any]) -> None:
        self._size = size
        self._element = element

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, k: Any) -> Any:
        if isinstance(k, slice):
            return [self._element(i) for i in range(*k.indices(self._size))]
        return self._element(range(self._size)[k])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(list(self))


def nonempty_list(values: Any) -> list[Any]:
    """The argument `values` as a list; raises `ValueError` if it is empty or not iterable."""
    try:
        elements = list(values)
    except TypeError:
        elements = []
    if not elements:
        raise ValueError(f"values must have at least one element, {values!r} given")
    return elements


def int_tuple(value: Any) -> tuple[int, ...]:
    """`value` as a tuple of plain ints; an empty one if it is not a sequence of integers."""
    try:
        return tuple(map(operator.index, value))
    except TypeError:
        return ()


def _randbelow(n: int, rng: np.random.Generator) -> int:
    """A uniform integer 0 <= i < n, for any n (numpy's own generator is limited to 64 bits)."""
    if n < 1 << 63:
        return int(rng.integers(n))
    bits = (n - 1).bit_length()
    while True:
        i = int.from_bytes(rng.bytes((bits + 7) // 8), "little") >> -bits % 8
        if i < n:
            return i
