"""A knob as the graph that is drawn of it: its vertices, where they lie, and what was seen there."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from autotvm_opevo.reporting.trials import Knob, Seen
from autotvm_opevo.topology import Categorical, Discrete, Factorization, Induced, Permutation, Tiling, Topology

Array = np.ndarray[tuple[int, int], np.dtype[np.float64]]

# A graph of more vertices is drawn over the values that were tried.
LARGEST = 200


@dataclass(frozen=True)
class KnobGraph:
    """What is drawn of a knob.

    Attributes
    ----------
    name : str
    topology : Topology
        The vertices that are drawn.
    size : int
        How many vertices the knob has; 0 where nobody knows.
    seen : mapping
        Of values that were tried, how often and the best latency.
    """

    name: str
    topology: Topology
    size: int
    seen: Mapping[Hashable, Seen]

    @property
    def positions(self) -> Array:
        """Where each vertex lies, in the topology's order: x and y within some -1 to 1."""
        return positions(self.topology)

    @property
    def edges(self) -> Iterator[tuple[int, int]]:
        """Pairs of vertices' numbers, each once."""
        for i, value in enumerate(self.topology):
            for neighbour in self.topology.neighbours(value):
                j = self.topology.index(neighbour)
                if i < j:
                    yield i, j


def knob_graph(name: str, knob: Knob, full: Topology | None = None) -> KnobGraph:
    """The graph of a knob: the full one where that is known and not too large, else the one over the values that were tried.

    Examples
    --------
    >>> graph = knob_graph("tile", Knob("tile", seen={(8, 1, 1): Seen(3, 0.5), (2, 2, 2): Seen(1, 0.25)}))
    >>> graph.topology, graph.size
    (Factorization(8, parts=3), 10)
    >>> full = Factorization(2**12, parts=4)
    >>> graph = knob_graph("tile", Knob("tile", seen={(4096, 1, 1, 1): Seen(), (1024, 2, 2, 1): Seen()}), full)
    >>> len(graph.topology), graph.size
    (2, 455)
    """
    known = full or _whole(knob)
    if known is not None and known.size <= LARGEST:
        return KnobGraph(name, known, known.size, knob.seen)
    best: list[Any] = sorted(knob.seen, key=lambda value: knob.seen[value].latency)[:LARGEST]
    if known is None:
        return KnobGraph(name, Induced(Tiling(best), best), 0, knob.seen)
    topology = type(known)(best) if isinstance(known, (Categorical, Discrete)) else Induced(known, best)
    return KnobGraph(name, topology, known.size, knob.seen)


def _whole(knob: Knob) -> Topology | None:
    """The topology that values of this kind come from; None where the log leaves open what their product is."""
    values: list[Any] = [*knob.options, *knob.seen]
    some = values[0]
    if knob.kind == "tile":
        return Factorization(math.prod(some), len(some))
    if knob.kind == "order":
        return Permutation(len(some))
    if knob.kind == "number":
        return Discrete(set(values))
    if knob.kind in ("annotation", "choice"):
        return Categorical(dict.fromkeys(values))
    return None


def positions(topology: Topology) -> Array:
    """Where to draw each vertex: numbers on a line, what is multiplied by the logarithms of its parts, all else on a circle.

    Each part pulls towards its own direction by its logarithm, so a step along an edge is as long wherever it is made. With
    three parts that is the paper's triangle; more lie askew, so that no two vertices hide one another.
    """
    graph: object = topology
    while isinstance(graph, Induced):
        graph = graph.graph
    if isinstance(graph, (Factorization, Tiling)):
        inner = np.log([list(value) for value in topology])
        if isinstance(graph, Tiling):  # whatever the loop's extent is, it is what the inner parts leave of it
            inner = np.column_stack([-inner.sum(axis=1), inner])
        return _centred(inner @ _directions(inner.shape[1]))
    if isinstance(topology, Discrete) or topology.size < 3:
        return np.column_stack([np.linspace(-1, 1, topology.size), np.zeros(topology.size)])
    angles = np.pi / 2 - 2 * np.pi * np.arange(topology.size) / topology.size
    return np.column_stack([np.cos(angles), np.sin(angles)])


def _directions(parts: int) -> Array:
    """Of a regular polygon's corners; of more than three, each a little farther round and out than regular."""
    if parts < 3:
        return np.array([[-1.0, 0.0], [1.0, 0.0]])[:parts]
    j = np.arange(parts)
    skew = 0.0 if parts == 3 else 1.0
    angles, radii = np.pi / 2 + 2 * np.pi * j / parts + 0.23 * skew * j, 1 + 0.19 * skew * j
    return np.column_stack([radii * np.cos(angles), radii * np.sin(angles)])


def _centred(points: Array) -> Array:
    """Within -1 to 1 in both directions, as large as that allows."""
    points = points - (points.min(axis=0) + points.max(axis=0)) / 2
    return points / max(float(np.abs(points).max()), 1e-9)
