"""Graphs of knobs: vertices, in words, layout, and the statistics of each vertex.

A log has only the values that were tried; all of them are known from the journal, or from
MetaSchedule's traces.
"""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from autotvm_opevo._utils import jsonl
from autotvm_opevo._utils.text import printable
from autotvm_opevo.reporting.network import TaskInLogs
from autotvm_opevo.reporting.trials import Knob, Value, ValueStats
from autotvm_opevo.topology import (
    Categorical,
    Discrete,
    Factorization,
    InducedSubgraph,
    Permutation,
    Tiling,
    Topology,
)
from autotvm_opevo.topology.factorization import prime_factors
from autotvm_opevo.topology.serialization import from_json

Array = np.ndarray[tuple[int, int], np.dtype[np.float64]]

# Of larger graphs, only the vertices that were tried are drawn, at most this many.
MAX_VERTICES = 200
# Larger factorizations are not enumerated to apply the bound on a tile's innermost part.
_MAX_ENUMERATED = 20_000
# What a choice means for the schedule.
_DESCRIPTIONS = {
    "vec": "vectorized",
    "unroll": "unrolled",
    "none": "not annotated",
    "true": "yes",
    "false": "no",
}


@dataclass(frozen=True)
class KnobGraph:
    """The graph of a knob.

    Attributes
    ----------
    name : str
    kind : str
        As in `Knob`.
    topology : Topology
        The graph of the vertices that are drawn.
    size : int
        Number of vertices of the knob, or an upper bound; 0 if unknown.
    stats : mapping of value to ValueStats
        Statistics of the values that were tried, also of those that are not drawn.
    """

    name: str
    kind: str
    topology: Topology
    size: int
    stats: Mapping[Hashable, ValueStats]

    def describe(self, value: Any) -> str:
        """Describe the effect of a vertex on the schedule."""
        return describe_value(self.name, Value(self.kind, value))

    @property
    def positions(self) -> Array:
        """Array of shape (vertices, 2): x and y of each vertex, by index, within -1 to 1."""
        return positions(self.topology)

    @property
    def edges(self) -> Iterator[tuple[int, int]]:
        """Pairs of the indices of adjacent vertices, each once."""
        for i, value in enumerate(self.topology):
            for neighbour in self.topology.neighbours(value):
                j = self.topology.index(neighbour)
                if i < j:
                    yield i, j


def knob_graph(name: str, knob: Knob, full: Topology | None = None) -> KnobGraph:
    """The graph of a knob, over all vertices if they are known and not too many, else over the best
    values that were tried.

    Parameters
    ----------
    name : str
    knob : Knob
    full : Topology, optional
        The graph of all vertices, if known; else it is derived from the knob, if possible.

    Examples
    --------
    >>> tile = Knob("tile", stats={(8, 1, 1): ValueStats(3, 0.5), (2, 2, 2): ValueStats(1, 0.25)})
    >>> graph = knob_graph("tile", tile)
    >>> list(graph.topology), graph.size
    ([(2, 2, 2), (8, 1, 1)], 0)
    >>> graph = knob_graph("tile", tile, Factorization(8, parts=3))
    >>> graph.topology, graph.size
    (Factorization(8, parts=3), 10)
    """
    if full is None:
        full = _infer_full(knob)
    if full is not None and full.size <= MAX_VERTICES:
        return KnobGraph(name, knob.kind, full, full.size, knob.stats)
    best: list[Any] = sorted(knob.stats, key=lambda value: knob.stats[value].best)[:MAX_VERTICES]
    return KnobGraph(
        name,
        knob.kind,
        graph_over(knob.kind, best, full),
        full.size if full is not None else 0,
        knob.stats,
    )


def _infer_full(knob: Knob) -> Topology | None:
    """The graph of all vertices, if the log has enough information."""
    if knob.options:
        return Categorical(dict.fromkeys([*knob.options, *knob.stats]))
    if knob.kind != "tile" or not knob.innermost:
        return None
    tile: Any = next(iter(knob.stats))
    full = Factorization(math.prod(tile), len(tile))
    if knob.innermost >= full.product or full.size > _MAX_ENUMERATED:
        return full
    return InducedSubgraph(full, [tile for tile in full if tile[-1] <= knob.innermost])


def graph_over(kind: str, values: Sequence[Any], full: Topology | None = None) -> Topology:
    """The graph over some values, with the edges of the full graph if that is known, else those of
    the kind of knob.
    """
    if isinstance(full, (Categorical, Discrete)):
        return type(full)(values)
    if full is not None:
        return InducedSubgraph(full, values)
    try:
        if kind == "tile":
            return InducedSubgraph(Factorization(math.prod(values[0]), len(values[0])), values)
        if kind == "inner tile":
            return InducedSubgraph(Tiling(values), values)
        if kind == "order":
            return InducedSubgraph(Permutation(len(values[0])), values)
        if kind == "number":
            return Discrete(values)
    except (
        ValueError
    ):  # values of different graphs, such as tiles of a loop whose extent has changed
        pass
    return Categorical(values)


def positions(topology: Topology) -> Array:
    """Lay out the vertices: numbers on a line, tiles by the logarithms of their parts, everything
    else on a circle.

    Each part of a tile has a direction, scaled by the part's logarithm: all edges that move the
    same prime between the same parts have the same length. Three parts give the paper's triangle;
    with more, the directions are irregular so that no two vertices coincide. With two parts, each
    prime has a direction instead: the tiles of 12 = 2 x 2 x 3 form a grid of three by two.

    Returns
    -------
    array of shape (vertices, 2)
        x and y of each vertex, by index, within -1 to 1.
    """
    graph = topology.whole
    if isinstance(graph, (Factorization, Tiling)):
        # Python integers: they may exceed 64 bits
        inner = np.array([[math.log(part) for part in value] for value in topology])
        # the outermost part is the loop's extent divided by the inner ones
        if isinstance(graph, Tiling):
            inner = np.column_stack([-inner.sum(axis=1), inner])
        if inner.shape[1] == 2:
            return _centred(_prime_exponents([int(value[-1]) for value in topology]))
        return _centred(inner @ _directions(inner.shape[1]))
    if isinstance(topology, Discrete) or topology.size < 3:
        return np.column_stack([np.linspace(-1, 1, topology.size), np.zeros(topology.size)])
    angles = np.pi / 2 - 2 * np.pi * np.arange(topology.size) / topology.size
    return np.column_stack([np.cos(angles), np.sin(angles)])


def _prime_exponents(numbers: list[int]) -> Array:
    """Positions of numbers: each prime has a direction in the first quadrant, scaled by the
    logarithm of its power.
    """
    factors = [prime_factors(number) for number in numbers]
    primes = sorted({p for exponents in factors for p in exponents}) or [2]
    angles = np.linspace(0, np.pi / 2, len(primes))
    powers = np.array(
        [[exponents.get(p, 0) * math.log(p) for p in primes] for exponents in factors]
    )
    return np.asarray(powers @ np.column_stack([np.cos(angles), np.sin(angles)]))


def _directions(parts: int) -> Array:
    """Corners of a regular polygon; of more than three, each is turned and moved outwards a little
    more than the one before.
    """
    j = np.arange(parts)
    skew = 0.0 if parts == 3 else 1.0
    angles, radii = np.pi / 2 + 2 * np.pi * j / parts + 0.23 * skew * j, 1 + 0.19 * skew * j
    return np.column_stack([radii * np.cos(angles), radii * np.sin(angles)])


def _centred(points: Array) -> Array:
    """Shift and scale to fill -1 to 1."""
    points = points - (points.min(axis=0) + points.max(axis=0)) / 2
    return points / max(float(np.abs(points).max()), 1e-9)


class KnobSpaces:
    """The topologies of a task's knobs, as far as they are known, and the vertices that the values
    of its log are.

    Parameters
    ----------
    task : TaskInLogs
    """

    def __init__(self, task: TaskInLogs) -> None:
        known = (in_log.task.topologies for in_log in task.in_logs if in_log.task.topologies)
        self._topologies: dict[str, Topology] = {}
        for name, topology in next(known, {}).items():
            with suppress(LookupError, TypeError, ValueError):  # damaged
                self._topologies[printable(name)] = from_json(*topology)

    @property
    def known(self) -> bool:
        """Whether the topologies are."""
        return bool(self._topologies)

    def complete(self, name: str, value: Value) -> Value:
        """Add the outermost part to an inner tile, if the knob's topology is known; return any
        other value unchanged.
        """
        if value.kind != "inner tile" or name not in self._topologies:
            return value
        try:
            vertex = _vertex(self._topologies[name], value)
        except ValueError:  # such as of a template that has changed since
            return value
        # with a tail, the outermost part follows from the loop
        return value if vertex == value.value else Value("tile", vertex)

    def complete_knob(self, name: str, knob: Knob) -> tuple[Knob, Topology | None]:
        """A knob with its values as vertices of its topology, and the topology; unchanged and None
        if that is unknown.
        """
        topology = self._topologies.get(name)
        if topology is None:
            return knob, None
        complete = Knob("tile" if knob.kind == "inner tile" else knob.kind, knob.options)
        for value, stats in knob.stats.items():
            try:
                complete.merge(_vertex(topology, Value(knob.kind, value)), stats)
            except ValueError:
                return knob, None
        return complete, topology


def _vertex(topology: Topology, value: Value) -> Hashable:
    """The vertex that a value of a log is; raises `ValueError` if there is none.

    Logs can lack the outermost part of a tile; with tails, it follows from the loop, and the
    vertices lack it. AutoTVM's categories are JSON.
    """
    vertex: Any = value.value
    forms = [vertex]
    if value.kind == "inner tile":
        forms.append((topology.extent // math.prod(vertex), *vertex))
    elif value.kind == "tile":
        forms.append(vertex[1:])
    if not isinstance(vertex, str):
        forms.append(json.dumps(vertex))
    form = next((form for form in forms if form in topology), vertex)
    return topology[topology.index(form)]  # type: ignore[no-any-return]


def format_value(value: Any) -> str:
    """Format a value as a label.

    >>> [format_value(value) for value in ((8, 2, 4), (0, 2, 1), ("none", "vec"), 64)]
    ['8x2x4', '0 2 1', 'none vec', '64']
    >>> format_value('["none", "vec"]')  # an annotation, as `KnobSpace` encodes it
    'none vec'
    """
    if isinstance(value, str) and value.startswith('["'):
        annotations = jsonl.load(value)
        # JSON's escapes are decoded
        value = value if annotations is jsonl.MALFORMED else tuple(map(printable, annotations))
    if isinstance(value, tuple):
        is_tile = all(isinstance(part, int) for part in value) and min(value, default=0) > 0
        return ("x" if is_tile else " ").join(map(str, value))
    return str(value)


def format_setting(name: str, value: Value) -> str:
    """Format a knob's name and the effect of its value on the schedule.

    >>> format_setting("tile_y", Value("inner tile", (2, 8)))
    'tile_y: ?x2x8'
    >>> format_setting("order", Value("order", (0, 2, 1)))
    'order: loops in the order 0 2 1'
    >>> format_setting("matmul, loop 2, 64 iterations", Value("tile", (8, 1, 8)))
    'matmul, loop 2, 64 iterations: 8x1x8'
    >>> format_setting("location of pad", Value("number", -2))
    'location of pad: inlined'
    >>> format_setting("sketch", Value("choice", "3"))
    'sketch: 3'
    >>> format_setting("vec", Value("annotation", ("none", "vec")))
    'vec: not annotated, vectorized'
    """
    order = "loops in the order " if value.kind == "order" else ""
    return f"{name}: {order}{describe_value(name, value)}"


def describe_value(name: str, value: Value) -> str:
    """Describe the effect of a knob's value on the schedule, without the knob's name."""
    text = format_value(value.value)
    if value.kind == "inner tile":
        return f"?x{text}"
    if value.kind == "annotation":
        return ", ".join(
            _DESCRIPTIONS.get(annotation, annotation) for annotation in text.split(" ")
        )
    if value.kind == "choice":
        return _DESCRIPTIONS.get(text, text)
    if name.startswith("location of "):
        return {"-2": "inlined", "-1": "outside all loops"}.get(text, f"in loop {text}")
    return text


def format_schedule(knobs: Mapping[str, Value]) -> list[str]:
    """Format the knobs of a configuration, except tiles of loops with one iteration."""
    return [
        format_setting(name, value)
        for name, value in knobs.items()
        if not (isinstance(value.value, tuple) and value.kind == "tile" and set(value.value) == {1})
    ]
