"""What a topology is: values numbered from 0, and who is whose neighbour."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np


class Graph(Protocol):
    """Vertices that know their neighbours: all that `InducedSubgraph` needs, so that a graph without an end will do."""

    def neighbours(self, value: Any) -> Sequence[Any]:
        """The values adjacent to `value`, each once, never `value` itself."""

    def coordinates(self, value: Any) -> tuple[int, ...]:
        """Where `value` lies: the nearer two vertices are on the graph, the smaller, roughly, the L1 distance of these."""


class Topology(ABC):
    """A knob's values as the vertices of an undirected graph, ``G = (V, E)`` of Section 3.

    A subclass says how many vertices there are (`size`), which is the i-th, which number a value has, and which are its
    neighbours. ``len`` is `size` too, but Python limits it to 2**63 - 1.
    """

    size: int

    @abstractmethod
    def __getitem__(self, index: int) -> Any:
        """The vertex number `index`, 0 <= index < size; raises `IndexError` outside."""

    @abstractmethod
    def index(self, value: Any) -> int:
        """The number of the vertex `value`; raises `ValueError` when it is none."""

    @abstractmethod
    def neighbours(self, value: Any) -> Sequence[Any]:
        """The values adjacent to `value`, ``S(value)`` of Section 4.3, each once, never `value` itself.

        Raises `ValueError` when it is no vertex.
        """

    def coordinates(self, value: Any) -> tuple[int, ...]:
        """Integers whose L1 distance grows with the distance on the graph, and is not 0 between neighbours.

        `InducedSubgraph` bridges components at their nearest vertices, and the Gaussian process takes the distance for the number
        of steps. The vertex's number unless a subclass overrides it.
        """
        return (self.index(value),)

    def sample(self, rng: np.random.Generator) -> Any:
        """A vertex, each as likely as any other."""
        return self[_below(self.size, rng)]

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

    def _vertex_number(self, index: int) -> int:
        index = operator.index(index)
        if not 0 <= index < self.size:
            raise IndexError(f"vertex number {index} given, {self!r} has 0 to {self.size - 1}")
        return index

    def _no_vertex(self, value: Any) -> ValueError:
        return ValueError(f"value {value!r} given, allowed are the {self.size} vertices of {self!r}, such as {self[0]!r}")


class LazySequence(Sequence[Any]):
    """A sequence whose elements are made when they are looked at: a walk looks at one neighbour of many."""

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


def vertices(values: Any) -> list[Any]:
    """The elements of the argument `values`, at least one, or a `ValueError`."""
    try:
        elements = list(values)
    except TypeError:
        elements = []
    if not elements:
        raise ValueError(f"values must have at least one element, {values!r} given")
    return elements


def integers(value: Any) -> tuple[int, ...]:
    """`value` as a tuple of plain ints; an empty one when it is no sequence of integers."""
    try:
        return tuple(map(operator.index, value))
    except TypeError:
        return ()


def _below(n: int, rng: np.random.Generator) -> int:
    """A uniform integer of 0 <= i < n, for any n (numpy's own ends at 64 bits)."""
    if n < 1 << 63:
        return int(rng.integers(n))
    bits = (n - 1).bit_length()
    while True:
        i = int.from_bytes(rng.bytes((bits + 7) // 8), "little") >> -bits % 8
        if i < n:
            return i
