"""Subgraphs: the values of a knob that a filter, a limit or a list of candidates leaves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import cdist

from autotvm_opevo.topology.base import Encoder, Graph, ListedTopology, nonempty_list

_CHUNK_SIZE = 1 << 22  # number of distances in memory at a time: 32 MiB


class InducedSubgraph(ListedTopology):
    """The subgraph induced by some vertices of a graph, with bridges that make it connected.

    A filter can disconnect a graph, and no walk would leave the component it starts in. So every
    connected component is bridged to the nearest other one, until the graph is connected: edges are
    added between all pairs of vertices, one in the component and one outside, whose `coordinates`
    are closest in L1 distance. Values mean what they mean in the whole graph.

    Construction visits the neighbours of every value once. Bridging takes time quadratic in the
    number of values: about a second for a few thousand.

    Parameters
    ----------
    graph : Graph
        A topology, or a graph that may be infinite.
    values : iterable
        The vertices to keep: at least one; distinct and hashable. They are indexed in the order
        given.

    Attributes
    ----------
    graph
        As given.

    Raises
    ------
    ValueError
        If `graph` is no graph, or `values` is empty, has duplicates, or holds a value that is not a
        vertex of `graph`.

    Examples
    --------
    >>> from autotvm_opevo.topology import Factorization
    >>> vectors = InducedSubgraph(Factorization(64, parts=2), [(64, 1), (8, 8), (4, 16)])
    >>> vectors.neighbours((4, 16))  # an edge of the graph
    [(8, 8)]
    >>> vectors.neighbours((64, 1))  # a bridge
    [(8, 8)]
    """

    def __init__(self, graph: Graph, values: Iterable[Any]) -> None:
        if not isinstance(graph, Graph):
            raise ValueError(f"graph must be a Topology or another Graph, {graph!r} given")
        super().__init__([_hashable(value) for value in nonempty_list(values)])
        self._adjacency = [
            [self._index[v] for v in graph.neighbours(u) if v in self._index] for u in self._values
        ]
        self.graph = graph
        self.is_categorical, self.extent = graph.is_categorical, graph.extent
        self._add_bridges()

    def neighbours(self, value: Any) -> Sequence[Any]:
        return [self._values[j] for j in self._adjacency[self.index(value)]]

    def coordinates(self, value: Any) -> tuple[int, ...]:
        """Return the coordinates of `value` in the whole graph."""
        return self.graph.coordinates(value)

    @property
    def whole(self) -> Graph:
        return self.graph.whole

    def is_comparable(self, other: Graph) -> bool:
        return self.graph.is_comparable(other)

    def encoder(self, peers: Sequence[Graph] = ()) -> Encoder:
        return self.graph.encoder(peers)

    def log_parts(self, value: Any) -> Sequence[float]:
        return self.graph.log_parts(value)

    def _add_bridges(self) -> None:
        """Bridge components until one is left; each round at least halves their number."""
        points: np.ndarray[Any, Any] | None = None
        while True:
            n_components, labels = self._components()
            if n_components == 1:
                return
            if points is None:
                points = np.array(
                    [self.graph.coordinates(value) for value in self._values], dtype=float
                )
            bridges = {
                (min(i, j), max(i, j))
                for c in range(n_components)
                for i, j in _closest_pairs(points, labels == c)
            }
            for i, j in sorted(bridges):
                self._adjacency[i].append(j)
                self._adjacency[j].append(i)

    def _components(self) -> tuple[int, np.ndarray[Any, Any]]:
        """The number of connected components, and the component of every vertex."""
        edges = [(i, j) for i, adjacent in enumerate(self._adjacency) for j in adjacent]
        rows, columns = np.array(edges, dtype=int).reshape(-1, 2).T
        matrix = coo_array(
            (np.ones(len(edges), dtype=bool), (rows, columns)), shape=(self.size, self.size)
        )
        n_components, labels = connected_components(matrix, directed=False)
        return int(n_components), labels

    def _key(self, value: Any) -> Any:
        return _hashable(value)

    def __repr__(self) -> str:
        return f"InducedSubgraph({self.graph!r}, {self.size} values)"


def _hashable(value: Any) -> Any:
    """Convert a list to a tuple: JSON turns tuples into lists."""
    return tuple(value) if isinstance(value, list) else value


def _closest_pairs(
    points: np.ndarray[Any, Any], inside: np.ndarray[Any, Any]
) -> list[tuple[int, int]]:
    """All pairs of a vertex inside and a vertex outside at the minimum L1 distance."""
    (ours,), (others,) = np.nonzero(inside), np.nonzero(~inside)
    minimum = np.inf
    pairs: list[tuple[int, int]] = []
    step = max(1, _CHUNK_SIZE // len(others))
    for start in range(0, len(ours), step):
        distances = cdist(points[ours[start : start + step]], points[others], "cityblock")
        shortest = distances.min()
        if shortest < minimum:
            minimum, pairs = shortest, []
        if shortest == minimum:
            i, j = np.nonzero(distances == shortest)
            pairs += zip(ours[start + i].tolist(), others[j].tolist())
    return pairs
