"""A topology whose vertices are called by their numbers: what a search computes with."""

from __future__ import annotations

from collections.abc import Sequence

from autotvm_opevo.topology.base import LazySequence, Topology

# Neighbours are remembered where there are up to so many vertices.
_SMALL = 1000


class IndexedGraph:
    """The same graph with numbers in the place of values.

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
        self._remembered: dict[int, Sequence[int]] = {}

    def neighbours(self, vertex: int) -> Sequence[int]:
        """The numbers of the vertices adjacent to that of number `vertex`."""
        if vertex in self._remembered:
            return self._remembered[vertex]
        values = self.topology.neighbours(self.topology[vertex])
        numbers: Sequence[int] = LazySequence(len(values), lambda k: self.topology.index(values[k]))
        if self.size <= _SMALL:
            numbers = self._remembered[vertex] = list(numbers)
        return numbers
