"""Topologies as JSON, for files that outlive the process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from autotvm_opevo.topology.base import Topology
from autotvm_opevo.topology.discrete import Categorical, Discrete
from autotvm_opevo.topology.factorization import Factorization, Tiling
from autotvm_opevo.topology.permutation import Permutation
from autotvm_opevo.topology.subgraph import InducedSubgraph


def as_json(topology: Topology) -> list[Any]:
    """A topology of this package as a list that JSON can represent: its kind, and the arguments that make it.

    Raises
    ------
    TypeError
        For a topology of another kind.

    Examples
    --------
    >>> as_json(Factorization(512, parts=4)), as_json(InducedSubgraph(Permutation(3), [(0, 1, 2), (0, 2, 1)]))
    (['tile', 512, 4], ['subgraph', [(0, 1, 2), (0, 2, 1)], 'order', 3])
    """
    if isinstance(topology, Factorization):
        return ["tile", topology.product, topology.parts]
    if isinstance(topology, Permutation):
        return ["order", topology.n]
    if isinstance(topology, (Categorical, Discrete)):
        return ["choice" if isinstance(topology, Categorical) else "number", list(topology)]
    if isinstance(topology, InducedSubgraph):
        if isinstance(topology.graph, Tiling):  # which is infinite
            return ["tile with tail", list(topology)]
        if isinstance(topology.graph, Topology):
            return ["subgraph", list(topology), *as_json(topology.graph)]
    raise TypeError(f"topology must be one of this package, or a subgraph of one, {topology!r} given")


def from_json(kind: str, *arguments: Any) -> Topology:
    """The topology that `as_json` has written, given the elements of its list.

    Raises
    ------
    LookupError, TypeError, ValueError
        If there is no such topology.

    Examples
    --------
    >>> from_json("tile", 512, 4)
    Factorization(512, parts=4)
    """
    return _KINDS[kind](*arguments)


def _tiling(values: Sequence[Sequence[int]]) -> Topology:
    tiles = list(map(tuple, values))
    return InducedSubgraph(Tiling(tiles), tiles)


def _subgraph(values: Sequence[Any], kind: str, *arguments: Any) -> Topology:
    return InducedSubgraph(from_json(kind, *arguments), values)


_KINDS: dict[str, Callable[..., Topology]] = {
    "tile": Factorization,
    "tile with tail": _tiling,
    "order": Permutation,
    "choice": Categorical,
    "number": Discrete,
    "subgraph": _subgraph,
}
