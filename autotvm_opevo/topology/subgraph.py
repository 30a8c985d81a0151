"""A part of a graph: what a filter, a limit or a list of candidates leaves of a knob's values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import cdist

from autotvm_opevo.topology.base import Graph, Topology, vertices

_CHUNK = 1 << 22  # distances held at a time: 32 MiB


class InducedSubgraph(Topology):
    """Some vertices of a graph with the edges between them, joined where they fall apart.

    Without more, a filter could cut the graph into pieces that no walk connects. So, while there are several pieces, each is
    joined to the nearest other one: by an edge between every pair of vertices, one in the piece and one outside, whose
    `coordinates` are as near as any such pair's (in L1). All keep their edges, and some gain bridges.

    Making one looks at every neighbour of every value once. When they fall apart, the time to join them grows with the square
    of their number: a second for some thousands.

    Parameters
    ----------
    graph : Graph
        A topology, or anything with `neighbours` and `coordinates`.
    values : iterable
        The vertices that stay, at least one, each once; hashable. Vertex i is the i-th of them.

    Attributes
    ----------
    graph
        As given.

    Raises
    ------
    ValueError
        If there is none, one is there twice, or one is no vertex of `graph`.

    Examples
    --------
    >>> from autotvm_opevo.topology import Factorization
    >>> vectors = InducedSubgraph(Factorization(64, parts=2), [(64, 1), (8, 8), (4, 16)])
    >>> vectors.neighbours((4, 16)), vectors.neighbours((64, 1))  # the first is an edge of the graph, the second a bridge
    ([(8, 8)], [(8, 8)])
    """

    def __init__(self, graph: Graph, values: Iterable[Any]) -> None:
        self._values = [_hashable(value) for value in vertices(values)]
        self._index = {value: i for i, value in enumerate(self._values)}
        self.size = len(self._values)
        if len(self._index) < self.size:
            raise ValueError("values must all be different, one is there twice")
        self.graph = graph
        self._adjacent = [[self._index[v] for v in graph.neighbours(u) if v in self._index] for u in self._values]
        self._join()

    def __getitem__(self, index: int) -> Any:
        return self._values[self._vertex_number(index)]

    def index(self, value: Any) -> int:
        try:
            return self._index[_hashable(value)]
        except (KeyError, TypeError):
            raise self._no_vertex(value) from None

    def neighbours(self, value: Any) -> Sequence[Any]:
        return [self._values[j] for j in self._adjacent[self.index(value)]]

    def coordinates(self, value: Any) -> tuple[int, ...]:
        return self.graph.coordinates(value)

    def _join(self) -> None:
        """Add bridges until all is one piece; every round at least halves the number of pieces."""
        points: np.ndarray[Any, Any] | None = None
        while True:
            pieces, piece = self._pieces()
            if pieces == 1:
                return
            if points is None:
                points = np.array([self.graph.coordinates(value) for value in self._values], dtype=float)
            bridges = {(min(i, j), max(i, j)) for p in range(pieces) for i, j in _nearest(points, piece == p)}
            for i, j in sorted(bridges):
                self._adjacent[i].append(j)
                self._adjacent[j].append(i)

    def _pieces(self) -> tuple[int, np.ndarray[Any, Any]]:
        """How many pieces there are, and which one every vertex lies in."""
        ends = [(i, j) for i, adjacent in enumerate(self._adjacent) for j in adjacent]
        rows, columns = np.array(ends, dtype=int).reshape(-1, 2).T
        matrix = coo_array((np.ones(len(ends), dtype=bool), (rows, columns)), shape=(self.size, self.size))
        pieces, piece = connected_components(matrix, directed=False)
        return int(pieces), piece

    def __repr__(self) -> str:
        return f"InducedSubgraph({self.graph!r}, {self.size} values)"


def _hashable(value: Any) -> Any:
    """Tuples that went through JSON come back as lists."""
    return tuple(value) if isinstance(value, list) else value


def _nearest(points: np.ndarray[Any, Any], inside: np.ndarray[Any, Any]) -> list[tuple[int, int]]:
    """The pairs of a vertex inside and one outside that lie nearest to each other."""
    (ours,), (others,) = np.nonzero(inside), np.nonzero(~inside)
    nearest = np.inf
    pairs: list[tuple[int, int]] = []
    step = max(1, _CHUNK // len(others))
    for start in range(0, len(ours), step):
        distances = cdist(points[ours[start : start + step]], points[others], "cityblock")
        shortest = distances.min()
        if shortest < nearest:
            nearest, pairs = shortest, []
        if shortest == nearest:
            i, j = np.nonzero(distances == shortest)
            pairs += zip(ours[start + i].tolist(), others[j].tolist())
    return pairs
