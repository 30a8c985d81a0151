"""A knob as the graph that is drawn of it: its vertices, where they lie, and what was seen there."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from autotvm_opevo.reporting.formatting import meaning
from autotvm_opevo.reporting.trials import Knob, Value, ValueStats
from autotvm_opevo.topology import Categorical, Discrete, Factorization, InducedSubgraph, Permutation, Tiling, Topology
from autotvm_opevo.topology.factorization import prime_factors

Array = np.ndarray[tuple[int, int], np.dtype[np.float64]]

# A graph of more vertices is drawn over the values that were tried.
LARGEST = 200
# Of a tile whose innermost part has a bound, so many vertices are looked at to know how many there are.
_LISTED = 20_000


@dataclass(frozen=True)
class KnobGraph:
    """What is drawn of a knob.

    Attributes
    ----------
    name : str
    kind : str
        As in `Knob`.
    topology : Topology
        The vertices that are drawn.
    size : int
        How many vertices the knob has, at the most; 0 where nobody knows.
    seen : mapping
        Of values that were tried, how often and the best latency.
    """

    name: str
    kind: str
    topology: Topology
    size: int
    seen: Mapping[Hashable, ValueStats]

    def meaning(self, value: Any) -> str:
        """A vertex in words."""
        return meaning(self.name, Value(self.kind, value))

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
    >>> tile = Knob("tile", seen={(8, 1, 1): Seen(3, 0.5), (2, 2, 2): Seen(1, 0.25)})
    >>> graph = knob_graph("tile", tile)
    >>> list(graph.topology), graph.size
    ([(2, 2, 2), (8, 1, 1)], 0)
    >>> graph = knob_graph("tile", tile, Factorization(8, parts=3))
    >>> graph.topology, graph.size
    (Factorization(8, parts=3), 10)
    """
    known = full if full is not None else _stated(knob)
    if known is not None and known.size <= LARGEST:
        return KnobGraph(name, knob.kind, known, known.size, knob.seen)
    best: list[Any] = sorted(knob.seen, key=lambda value: knob.seen[value].latency)[:LARGEST]
    return KnobGraph(name, knob.kind, _over(knob.kind, best, known), known.size if known is not None else 0, knob.seen)


def _stated(knob: Knob) -> Topology | None:
    """The topology where the log says all that the knob could be."""
    if knob.options:
        return Categorical(dict.fromkeys([*knob.options, *knob.seen]))
    if knob.kind != "tile" or not knob.innermost:
        return None
    some: Any = next(iter(knob.seen))
    whole = Factorization(math.prod(some), len(some))
    if knob.innermost >= whole.product or whole.size > _LISTED:
        return whole
    return InducedSubgraph(whole, [tile for tile in whole if tile[-1] <= knob.innermost])


def _over(kind: str, values: list[Any], known: Topology | None) -> Topology:
    """The graph over some values, with the edges that the known one has, or else those of their kind."""
    if isinstance(known, (Categorical, Discrete)):
        return type(known)(values)
    if known is not None:
        return InducedSubgraph(known, values)
    try:
        if kind == "tile":
            return InducedSubgraph(Factorization(math.prod(values[0]), len(values[0])), values)
        if kind == "inner tile":
            return InducedSubgraph(Tiling(values), values)
        if kind == "order":
            return InducedSubgraph(Permutation(len(values[0])), values)
        if kind == "number":
            return Discrete(values)
    except ValueError:  # a knob whose values are not of one kind: a loop that was another then, for example
        pass
    return Categorical(values)


def positions(topology: Topology) -> Array:
    """Where to draw each vertex: numbers on a line, what is multiplied by the logarithms of its parts, all else on a circle.

    Each part pulls towards its own direction by its logarithm, so a step along an edge is as long wherever it is made. With
    three parts that is the paper's triangle; more lie askew, so that no two vertices hide one another. Two parts have a
    direction for each prime instead: those of 12 = 2 x 2 x 3 are a grid of three by two.
    """
    graph: object = topology
    while isinstance(graph, InducedSubgraph):
        graph = graph.graph
    if isinstance(graph, (Factorization, Tiling)):
        inner = np.array([[math.log(part) for part in value] for value in topology])  # of any size, as numpy's are not
        if isinstance(graph, Tiling):  # whatever the loop's extent is, it is what the inner parts leave of it
            inner = np.column_stack([-inner.sum(axis=1), inner])
        if inner.shape[1] == 2:
            return _centred(_of_primes([int(value[-1]) for value in topology]))
        return _centred(inner @ _directions(inner.shape[1]))
    if isinstance(topology, Discrete) or topology.size < 3:
        return np.column_stack([np.linspace(-1, 1, topology.size), np.zeros(topology.size)])
    angles = np.pi / 2 - 2 * np.pi * np.arange(topology.size) / topology.size
    return np.column_stack([np.cos(angles), np.sin(angles)])


def _of_primes(numbers: list[int]) -> Array:
    """Each prime a direction of a quarter circle, in which a number lies as far as the logarithm of that prime's power in it."""
    factors = [prime_factors(number) for number in numbers]
    primes = sorted({p for exponents in factors for p in exponents}) or [2]
    angles = np.linspace(0, np.pi / 2, len(primes))
    powers = np.array([[exponents.get(p, 0) * math.log(p) for p in primes] for exponents in factors])
    return np.asarray(powers @ np.column_stack([np.cos(angles), np.sin(angles)]))


def _directions(parts: int) -> Array:
    """Of a regular polygon's corners; of more than three, each a little farther round and out than regular."""
    j = np.arange(parts)
    skew = 0.0 if parts == 3 else 1.0
    angles, radii = np.pi / 2 + 2 * np.pi * j / parts + 0.23 * skew * j, 1 + 0.19 * skew * j
    return np.column_stack([radii * np.cos(angles), radii * np.sin(angles)])


def _centred(points: Array) -> Array:
    """Within -1 to 1 in both directions, as large as that allows."""
    points = points - (points.min(axis=0) + points.max(axis=0)) / 2
    return points / max(float(np.abs(points).max()), 1e-9)
