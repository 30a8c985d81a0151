"""`check_topology`, a test of the `Topology` contract for user-defined topologies."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

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
        At the first violation, naming the method and the vertex.

    Examples
    --------
    >>> from autotvm_opevo.topology import Discrete
    >>> check_topology(Discrete([0, 16, 64]))
    >>> class Ring(Discrete):
    ...     def neighbours(self, value):
    ...         return [(value + 1) % 4]
    >>> check_topology(Ring([0, 1, 2, 3]))
    Traceback (most recent call last):
    ValueError: neighbours of a Ring: 1 is a neighbour of 0, but 0 is not a neighbour of 1
    """
    kind = type(topology).__name__
    try:
        size = as_integer("size", topology.size)
    except (AttributeError, ValueError) as error:
        raise ValueError(
            f"size of a {kind} must be an integer of at least 1, set before anything else: {error}"
        ) from error
    count = min(size, as_integer("max_vertices", max_vertices))
    values = {
        index: _call(kind, "__getitem__", lambda index: topology[index], index)
        for index in sorted({i * (size - 1) // max(1, count - 1) for i in range(count)})
    }
    for index, value in values.items():
        returned = _call(kind, "index", topology.index, value)
        if returned != index:
            raise ValueError(
                f"index of a {kind}: {value!r} is the vertex at index {index}, {returned!r} "
                "returned"
            )
    _check_rejections(kind, topology)
    for value in values.values():
        _check_neighbours(kind, topology, value)


def _check_rejections(kind: str, topology: Topology) -> None:
    """A value that is not a vertex has no index, and an index out of range has no vertex."""
    for method, function, invalid, expected in (
        ("index", topology.index, object(), ValueError),
        ("__getitem__", lambda index: topology[index], topology.size, IndexError),
    ):
        try:
            outcome = f"returned {function(invalid)!r}"
        except expected:
            continue
        except Exception as error:  # user code may raise anything
            outcome = f"raised {error!r}"
        raise ValueError(
            f"{method} of a {kind} must raise {expected.__name__} for an invalid argument; "
            f"for {invalid!r} it {outcome}"
        )


def _check_neighbours(kind: str, topology: Topology, value: Any) -> None:
    index, coordinates, seen = topology.index(value), _coordinates(kind, topology, value), set()
    neighbours = _call(kind, "neighbours", lambda value: list(topology.neighbours(value)), value)
    if not neighbours and topology.size > 1:
        raise ValueError(f"neighbours of a {kind}: {value!r} has none, so no walk leaves it")
    for neighbour in neighbours:
        other = _call(kind, "index", topology.index, neighbour)
        if not 0 <= other < topology.size or topology[other] != neighbour:
            raise ValueError(
                f"neighbours of a {kind}: {neighbour!r}, a neighbour of {value!r}, is not a vertex"
            )
        if other == index:
            raise ValueError(f"neighbours of a {kind}: {value!r} is its own neighbour")
        if other in seen:
            raise ValueError(
                f"neighbours of a {kind}: {neighbour!r} is listed twice as a neighbour of {value!r}"
            )
        seen.add(other)
        back = _call(
            kind,
            "neighbours",
            lambda value: [topology.index(v) for v in topology.neighbours(value)],
            neighbour,
        )
        if index not in back:
            raise ValueError(
                f"neighbours of a {kind}: {neighbour!r} is a neighbour of {value!r}, "
                f"but {value!r} is not a neighbour of {neighbour!r}"
            )
        others = _coordinates(kind, topology, neighbour)
        if len(others) != len(coordinates):
            raise ValueError(
                f"coordinates of a {kind}: {value!r} has {len(coordinates)}, {neighbour!r} "
                f"has {len(others)}"
            )
        if np.array_equal(coordinates, others):
            raise ValueError(
                f"coordinates of a {kind}: {value!r} and its neighbour {neighbour!r} have the "
                f"same coordinates, {coordinates}"
            )


def _coordinates(kind: str, topology: Topology, value: Any) -> tuple[int, ...]:
    def as_integers(value: Any) -> tuple[int, ...]:
        return tuple(map(operator.index, topology.coordinates(value)))

    coordinates: tuple[int, ...] = _call(kind, "coordinates", as_integers, value)
    return coordinates


def _call(kind: str, method: str, function: Any, argument: Any) -> Any:
    try:
        return function(argument)
    except Exception as error:  # user code may raise anything
        raise ValueError(
            f"{method} of a {kind}: {argument!r} raises {type(error).__name__}: {error}"
        ) from error
