"""A topology over vertex indices instead of values, which is what a search computes with."""

from __future__ import annotations

from collections.abc import Sequence

from autotvm_opevo.topology.base import LazySequence, Topology

# Neighbours are cached in graphs of at most this many vertices.
_MAX_CACHED_SIZE = 1000


class IndexedGraph:
    """The graph of a topology with its vertices named by their indices.

    Parameters
    ----------
    topology : Topology

    Examples
    --------
    >>> from autotvm_opevo.topology import Discrete
    >>> list(IndexedGraph(Discrete([8, 16, 64])).neighbours(1))
    [0, 2]
    """

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.size = topology.size
        self._cache: dict[int, Sequence[int]] = {}

    def neighbours(self, vertex: int) -> Sequence[int]:
        """Return the indices of the vertices adjacent to the one at index `vertex`."""
        if vertex in self._cache:
            return self._cache[vertex]
        values = self.topology.neighbours(self.topology[vertex])
        indices: Sequence[int] = LazySequence(len(values), lambda k: self.topology.index(values[k]))
        if self.size <= _MAX_CACHED_SIZE:
            indices = self._cache[vertex] = list(indices)
        return indices
