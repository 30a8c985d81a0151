"""Topologies from JSON: what `Topology.to_json` has written to files that outlive the process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from autotvm_opevo.topology.base import Topology
from autotvm_opevo.topology.discrete import Categorical, Discrete
from autotvm_opevo.topology.explicit import ExplicitGraph
from autotvm_opevo.topology.factorization import Factorization, Tiling
from autotvm_opevo.topology.permutation import Permutation
from autotvm_opevo.topology.subgraph import InducedSubgraph


def from_json(kind: str, *arguments: Any) -> Topology:
    """The topology whose `to_json` has returned a list, given its elements; raises `LookupError`,
    `TypeError` or `ValueError` if there is none.

    >>> from_json(*Factorization(512, parts=4).to_json())
    Factorization(512, parts=4)
    """
    return KINDS[kind](*arguments)


def _tiling(values: Sequence[Any]) -> Topology:
    return InducedSubgraph(Tiling(values), values)


def _subgraph(values: Sequence[Any], kind: str, *arguments: Any) -> Topology:
    return InducedSubgraph(from_json(kind, *arguments), values)


# What makes a topology, by its kind. Add the kind of a topology of your own, if it has a `to_json`
# of its own.
KINDS: dict[str, Callable[..., Topology]] = {
    "tile": Factorization,
    "tile with tail": _tiling,
    "order": Permutation,
    "choice": Categorical,
    "number": Discrete,
    "graph": ExplicitGraph,
    "subgraph": _subgraph,
}
