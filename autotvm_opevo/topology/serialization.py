"""Topologies as JSON, in files that outlive the process: a kind, and its arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from autotvm_opevo.topology.base import Graph, Topology
from autotvm_opevo.topology.discrete import Categorical, Discrete
from autotvm_opevo.topology.factorization import Factorization, Tiling
from autotvm_opevo.topology.permutation import Permutation
from autotvm_opevo.topology.subgraph import InducedSubgraph

# Larger subgraphs of a finite graph are written as the whole graph, others not at all.
_MAX_VERTICES = 200


def to_json(graph: Graph) -> list[Any]:
    """A list that JSON can represent, from which `from_json` makes the graph, one of this package.

    >>> to_json(Factorization(512, parts=4))
    ['tile', 512, 4]
    """
    if isinstance(graph, InducedSubgraph):
        values = list(graph)
        if isinstance(graph.graph, Tiling):
            return ["tile with tail", values]
        return ["subgraph", values, *to_json(graph.graph)]
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


def knobs_to_json(knobs: Mapping[str, Topology]) -> dict[str, list[Any]]:
    """The graphs of knobs; of large subgraphs the whole graph, unless it is infinite.

    >>> tiles = Factorization(2**20, parts=3)
    >>> knobs_to_json({"tile": InducedSubgraph(tiles, [tile for tile in tiles if tile[2] > 1])})
    {'tile': ['tile', 1048576, 3]}
    """
    graphs = {
        name: topology if topology.size <= _MAX_VERTICES else topology.whole
        for name, topology in knobs.items()
    }
    return {name: to_json(graph) for name, graph in graphs.items() if isinstance(graph, Topology)}


def _tiling(values: Sequence[Any]) -> Topology:
    return InducedSubgraph(Tiling(values), values)


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
