"""Whether a topology of one's own keeps to what `Topology` asks for."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from autotvm_opevo._utils.validation import as_integer
from autotvm_opevo.topology.base import Topology


def check_topology(topology: Topology, at_most: int = 1000) -> None:
    """Refuse a topology that a search would stumble over, or, which is worse, would not.

    Vertices are numbered without gaps, what is none is refused, neighbours are other vertices, each once and each of them a
    neighbour back, and coordinates tell a vertex from them. Whether the graph is connected is not looked at.

    Parameters
    ----------
    topology : Topology
    at_most : int
        So many vertices are looked at, from the first to the last.

    Raises
    ------
    ValueError
        For the first mistake; says of which method and at which vertex.

    Examples
    --------
    >>> from autotvm_opevo.topology import Discrete
    >>> check(Discrete([0, 16, 64]))
    >>> class Ring(Discrete):
    ...     def neighbours(self, value):
    ...         return [(value + 1) % 4]
    >>> check(Ring([0, 1, 2, 3]))
    Traceback (most recent call last):
    ValueError: neighbours of a Ring: 1 is one of 0, but 0 is none of 1
    """
    kind = type(topology).__name__
    try:
        size = as_integer("size", topology.size)
    except (AttributeError, ValueError) as error:
        raise ValueError(f"size of a {kind} must be an integer of at least 1, set before anything else: {error}") from error
    some = min(size, as_integer("at_most", at_most))
    values = {
        number: _called(kind, "__getitem__", lambda number: topology[number], number)
        for number in sorted({i * (size - 1) // max(1, some - 1) for i in range(some)})
    }
    for number, value in values.items():
        found = _called(kind, "index", topology.index, value)
        if found != number:
            raise ValueError(f"index of a {kind}: {value!r} is vertex number {number}, {found!r} given")
    _check_strangers(kind, topology)
    for value in values.values():
        _check_neighbours(kind, topology, value)


def _check_strangers(kind: str, topology: Topology) -> None:
    """What is no vertex has no number, and no number has one beyond the last."""
    for method, function, stranger, expected in (
        ("index", topology.index, object(), ValueError),
        ("__getitem__", lambda number: topology[number], topology.size, IndexError),
    ):
        try:
            found = function(stranger)
        except expected:
            continue
        except Exception as error:  # whatever somebody else's code raises
            found = error
        raise ValueError(
            f"{method} of a {kind} must raise {expected.__name__} for what is no vertex; for {stranger!r} it gave {found!r}"
        )


def _check_neighbours(kind: str, topology: Topology, value: Any) -> None:
    number, here, seen = topology.index(value), _coordinates(kind, topology, value), set()
    neighbours = _called(kind, "neighbours", lambda value: list(topology.neighbours(value)), value)
    if not neighbours and topology.size > 1:
        raise ValueError(f"neighbours of a {kind}: {value!r} has none, so no walk leaves it")
    for neighbour in neighbours:
        other = _called(kind, "index", topology.index, neighbour)
        if not 0 <= other < topology.size or topology[other] != neighbour:
            raise ValueError(f"neighbours of a {kind}: {neighbour!r}, one of {value!r}, is no vertex")
        if other == number:
            raise ValueError(f"neighbours of a {kind}: {value!r} is one of its own")
        if other in seen:
            raise ValueError(f"neighbours of a {kind}: {neighbour!r} is twice one of {value!r}")
        seen.add(other)
        back = _called(kind, "neighbours", lambda value: [topology.index(one) for one in topology.neighbours(value)], neighbour)
        if number not in back:
            raise ValueError(f"neighbours of a {kind}: {neighbour!r} is one of {value!r}, but {value!r} is none of {neighbour!r}")
        there = _coordinates(kind, topology, neighbour)
        if len(there) != len(here):
            raise ValueError(f"coordinates of a {kind}: {value!r} has {len(here)}, {neighbour!r} has {len(there)}")
        if np.array_equal(here, there):
            raise ValueError(f"coordinates of a {kind}: {value!r} and its neighbour {neighbour!r} have the same, {here}")


def _coordinates(kind: str, topology: Topology, value: Any) -> tuple[int, ...]:
    return _called(kind, "coordinates", lambda value: tuple(map(operator.index, topology.coordinates(value))), value)  # type: ignore[no-any-return]


def _called(kind: str, method: str, function: Any, value: Any) -> Any:
    try:
        return function(value)
    except Exception as error:  # whatever somebody else's code raises
        raise ValueError(f"{method} of a {kind}: {value!r} raises {type(error).__name__}: {error}") from error
