"""Graphs whose vertices and edges are listed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from autotvm_opevo.topology.base import ListedTopology, nonempty_list


class ExplicitGraph(ListedTopology):
    """A graph that is listed: its distinct, hashable vertices, and the indices of the neighbours of
    each. Vertices that are lists become tuples. A `ValueError` if they do not fit each other.

    >>> ring = ExplicitGraph("abcd", [[1, 3], [0, 2], [1, 3], [2, 0]])
    >>> ring.neighbours("a")
    ['b', 'd']
    """

    def __init__(self, values: Iterable[Any], adjacency: Sequence[Sequence[int]]) -> None:
        super().__init__([hashable(value) for value in nonempty_list(values)])
        if len(adjacency) != self.size or not all(
            j in range(self.size) for adjacent in adjacency for j in adjacent
        ):
            raise ValueError(
                f"adjacency must have the indices of the neighbours of {self.size} vertices, "
                f"{adjacency!r} given"
            )
        self._adjacency = [list(adjacent) for adjacent in adjacency]

    def neighbours(self, value: Any) -> Sequence[Any]:
        return [self._values[j] for j in self._adjacency[self.index(value)]]

    def _key(self, value: Any) -> Any:
        return hashable(value)

    def __repr__(self) -> str:
        return f"ExplicitGraph({self._values!r}, {self._adjacency!r})"


def hashable(value: Any) -> Any:
    """Convert a list to a tuple: JSON turns tuples into lists."""
    return tuple(value) if isinstance(value, list) else value
