"""`Topology`, the base class of all knobs, `Graph`, which may be infinite, and helpers."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

# From a value to its coordinates in steps, a sequence of numbers.
Encoder = Callable[[Any], Any]

# At most this many neighbours of the first vertex tell how long a step is.
_MAX_NEIGHBOURS = 1000


class Graph(ABC):
    """An undirected graph that may be infinite, and what the rest of the package asks a graph.

    `InducedSubgraph` makes a knob of it. A subclass implements `neighbours` and `coordinates`;
    everything else has a default.

    Attributes
    ----------
    is_categorical : bool
        Whether all values are one step from each other: coordinates then differ or not, however
        much. False by default.
    extent : int
        Of the loop that the values tile; 1, the default, for other knobs. Tasks are the more
        similar, the nearer theirs are.
    """

    is_categorical: bool = False
    extent: int = 1

    @abstractmethod
    def neighbours(self, value: Any) -> Sequence[Any]:
        """Return the values adjacent to `value`, without repetition and without `value` itself."""

    @abstractmethod
    def coordinates(self, value: Any) -> tuple[int, ...]:
        """Return integer coordinates of `value` whose L1 distance approximates the distance on the
        graph.
        """

    @property
    def whole(self) -> Graph:
        """The graph that this is, or that it is a subgraph of."""
        return self

    def is_comparable(self, other: Graph) -> bool:
        """Return whether values of `other`, the same knob of another task, mean the same as here.

        By default, if the whole graphs have the same type and ``repr``.
        """
        return type(self) is type(other.whole) and repr(self) == repr(other.whole)

    def encoder(self, peers: Sequence[Graph] = ()) -> Encoder:
        """Return a function from a value, of this graph or of comparable ones, `peers`, to its
        coordinates in steps.

        The kernel of the Gaussian process takes the L1 distance of these coordinates for the number
        of steps. By default they are `coordinates`.
        """
        return self.coordinates

    def log_parts(self, value: Any) -> Sequence[float]:
        """Return log2 of the parts that a loop is tiled into; by default none, for other knobs."""
        return ()


class Topology(Graph):
    """The values of a knob as the vertices of an undirected graph, ``G = (V, E)`` of Section 3.

    A subclass sets `size`, the number of vertices, and implements `__getitem__`, `index` and
    `neighbours`. ``len`` returns `size` too, but Python limits it to 2**63 - 1. With these it has
    the Gaussian process and transfer between equal topologies; `coordinates`, and `is_comparable`
    with `encoder`, make them better.

    Attributes
    ----------
    size : int
    is_categorical, extent
        See `Graph`.
    """

    size: int

    @abstractmethod
    def __getitem__(self, index: int) -> Any:
        """Return the vertex at `index`, 0 <= index < size; raises `IndexError` if it is out of
        range.
        """

    @abstractmethod
    def index(self, value: Any) -> int:
        """Return the index of the vertex `value`; raises `ValueError` if it is not a vertex."""

    @abstractmethod
    def neighbours(self, value: Any) -> Sequence[Any]:
        """Return the values adjacent to `value`, ``S(value)`` of Section 4.3, without repetition
        and without `value` itself.

        Raises `ValueError` if `value` is not a vertex.
        """

    def coordinates(self, value: Any) -> tuple[int, ...]:
        """Return integer coordinates whose L1 distance grows with the distance on the graph, and is
        not 0 between neighbours.

        `InducedSubgraph` adds bridges where this distance is smallest, and the kernel of the
        Gaussian process takes it for the number of steps. Defaults to the vertex's index.
        """
        return (self.index(value),)

    def encoder(self, peers: Sequence[Graph] = ()) -> Encoder:
        """See `Graph.encoder`; by default, `coordinates` divided by the length of the shortest edge
        at the first vertex.

        Raises
        ------
        ValueError
            If that is 0.
        """
        scale = 1 / self._step_length()
        return lambda value: np.multiply(self.coordinates(value), scale)

    def _step_length(self) -> float:
        """L1 distance from the first vertex to its nearest neighbour: mostly, every edge's."""
        start = self[0]
        origin = np.array(self.coordinates(start))
        neighbours = list(self.neighbours(start)[:_MAX_NEIGHBOURS])
        lengths = [float(abs(origin - self.coordinates(value)).sum()) for value in neighbours]
        if 0.0 in lengths:
            raise ValueError(
                "coordinates must differ between neighbours, and no value may be its own "
                f"neighbour: {self!r} has the same for {start!r} and "
                f"{neighbours[lengths.index(0.0)]!r}; see topology.check_topology"
            )
        return min(lengths, default=1.0)

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
            raise IndexError(
                f"vertex index {index} given, allowed for {self!r} are 0 to {self.size - 1}"
            )
        return index

    def _invalid_value(self, value: Any) -> ValueError:
        """The error to raise for a value that is not a vertex."""
        return ValueError(
            f"value {value!r} given, allowed are the {self.size} vertices of {self!r}, such "
            f"as {self[0]!r}"
        )


class ListedTopology(Topology):
    """A topology whose vertices are listed. Values with different keys are distinct."""

    def __init__(self, values: list[Any]) -> None:
        self._values, self.size = values, len(values)
        self._index: dict[Any, int] = {}
        for i, value in enumerate(values):
            if self._index.setdefault(self._key(value), i) != i:
                raise ValueError(f"values must be distinct, {value!r} given twice")

    def __getitem__(self, index: int) -> Any:
        return self._values[self._check_index(index)]

    def index(self, value: Any) -> int:
        try:
            return self._index[self._key(value)]
        except (KeyError, TypeError):  # of what is not hashable
            raise self._invalid_value(value) from None

    def _key(self, value: Any) -> Any:
        return value


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
