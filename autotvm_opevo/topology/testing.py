"""`check_topology`, a test of the `Topology` contract for user-defined topologies."""

from __future__ import annotations

import operator

from autotvm_opevo._utils.validation import as_integer
from autotvm_opevo.topology.base import Topology


def check_topology(topology: Topology, max_vertices: int = 1000) -> None:
    """Check that a topology satisfies the contract of `Topology`; a violation could silently break
    a search.

    Indices must be contiguous, other values and indices rejected, and neighbours distinct vertices,
    symmetric, and different in their coordinates. Connectivity is not checked.

    Parameters
    ----------
    topology : Topology
    max_vertices : int
        Maximum number of vertices to check, spread evenly from the first to the last.

    Raises
    ------
    ValueError
        At the first violation, naming the vertex. Errors of the topology's own methods are passed
        on.

    Examples
    --------
    >>> from autotvm_opevo.topology import Discrete
    >>> check_topology(Discrete([0, 16, 64]))
    >>> class Ring(Discrete):
    ...     def neighbours(self, value):
    ...         return [(value + 1) % 4]
    >>> check_topology(Ring([0, 1, 2, 3]))
    Traceback (most recent call last):
    ValueError: Ring: 1 is a neighbour of 0, but 0 is not a neighbour of 1
    """
    kind, size = type(topology).__name__, as_integer("size", topology.size)

    def check(holds: object, violation: str) -> None:
        if not holds:
            raise ValueError(f"{kind}: {violation}")

    count = min(size, as_integer("max_vertices", max_vertices))
    chosen = sorted({i * (size - 1) // max(1, count - 1) for i in range(count)})
    for i in chosen:
        index = topology.index(topology[i])
        check(index == i, f"{topology[i]!r} is the vertex at index {i}, index returns {index!r}")
    for i in chosen:
        value = topology[i]
        coordinates, seen = tuple(map(operator.index, topology.coordinates(value))), {i}
        neighbours = list(topology.neighbours(value))
        check(neighbours or size == 1, f"{value!r} has no neighbours, so no walk leaves it")
        for other in neighbours:
            j = topology.index(other)
            is_vertex = 0 <= j < size and topology[j] == other
            check(is_vertex, f"{other!r}, a neighbour of {value!r}, is not a vertex")
            check(j != i, f"{value!r} is its own neighbour")
            check(j not in seen, f"{other!r} is listed twice as a neighbour of {value!r}")
            seen.add(j)
            check(
                i in map(topology.index, topology.neighbours(other)),
                f"{other!r} is a neighbour of {value!r}, but {value!r} is not a neighbour of "
                f"{other!r}",
            )
            others = tuple(map(operator.index, topology.coordinates(other)))
            check(
                len(others) == len(coordinates) and others != coordinates,
                f"{value!r} and its neighbour {other!r} must have different coordinates, as many; "
                f"{coordinates} and {others} returned",
            )
    for method, function, invalid, expected in (
        ("index", topology.index, object(), ValueError),
        ("__getitem__", lambda index: topology[index], size, IndexError),
    ):
        try:
            returned = function(invalid)
        except expected:
            continue
        check(False, f"{method} must raise {expected.__name__}, it returns {returned!r}")
