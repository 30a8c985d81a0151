"""Topologies as JSON, in files that outlive the process: a kind, and its arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from autotvm_opevo.topology.base import Graph, Topology
from autotvm_opevo.topology.discrete import Categorical, Discrete
from autotvm_opevo.topology.factorization import Factorization, Tiling
from autotvm_opevo.topology.permutation import Permutation
from autotvm_opevo.topology.subgraph import InducedSubgraph


def to_json(graph: Graph) -> list[Any]:
    """A list that JSON can represent, from which `from_json` makes the graph, one of this package,
    or a subset of a `Tiling`.

    >>> to_json(Factorization(512, parts=4))
    ['tile', 512, 4]
    """
    if isinstance(graph, InducedSubgraph) and isinstance(graph.graph, Tiling):
        return ["tile with tail", list(graph)]
    if isinstance(graph, Factorization):
        return ["tile", graph.product, graph.parts]
    if isinstance(graph, Permutation):
        return ["order", graph.n]
    if isinstance(graph, Discrete):
        return ["number", list(graph)]
    if isinstance(graph, Categorical):
        return ["choice", list(graph)]
    raise TypeError(f"only topologies of this package can be written as JSON, {graph!r} given")


def from_json(kind: str, *arguments: Any) -> Topology:
    """The topology that `to_json` has written, given the elements of its list; raises
    `LookupError`, `TypeError` or `ValueError` if there is none.

    >>> from_json("tile", 512, 4)
    Factorization(512, parts=4)
    """
    return _KINDS[kind](*arguments)


def _tiling(values: Sequence[Any]) -> Topology:
    return InducedSubgraph(Tiling(values), values)


_KINDS: dict[str, Callable[..., Topology]] = {
    "tile": Factorization,
    "tile with tail": _tiling,
    "order": Permutation,
    "choice": Categorical,
    "number": Discrete,
}
