"""Graphs of knobs: vertices, in words, layout, and the latencies of each vertex.

A log has only the values that were tried; all of them are known from a run log, or from
MetaSchedule's traces.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from autotvm_opevo._utils import jsonl
from autotvm_opevo._utils.text import printable
from autotvm_opevo.reporting.trials import Task, Value
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


@dataclass
class Knob:
    """A knob of a task: the kind of its values, the latencies of the trials of each in all logs, in
    seconds, infinite for failures; and the graph of all values, if it is known.

    >>> tile = Knob("tile_x", "tile", latencies={(8, 1, 1): [0.5, 0.75], (2, 2, 2): [0.25]})
    >>> list(tile.topology), tile.size
    ([(2, 2, 2), (8, 1, 1)], 0)
    """

    name: str
    kind: str
    latencies: dict[Hashable, list[float]] = field(default_factory=dict)
    full: Topology | None = None

    @property
    def size(self) -> int:
        """Number of vertices; 0 if unknown."""
        return self.full.size if self.full is not None else 0

    @cached_property
    def topology(self) -> Topology:
        """The graph that is drawn: all vertices if known and few, else the best that were tried,
        with the edges of the full graph if known, or by kind.
        """
        if self.full is not None and self.full.size <= MAX_VERTICES:
            return self.full
        values: list[Any] = sorted(self.latencies, key=self.best)[:MAX_VERTICES]
        if isinstance(self.full, (Categorical, Discrete)):
            return type(self.full)(values)
        # values of different graphs, such as tiles of a loop whose extent has changed
        with suppress(ValueError):
            if self.full is not None:
                return InducedSubgraph(self.full, values)
            if self.kind == "tile":
                return InducedSubgraph(Factorization(math.prod(values[0]), len(values[0])), values)
            if self.kind == "inner tile":
                return InducedSubgraph(Tiling(values), values)
            if self.kind == "order":
                return InducedSubgraph(Permutation(len(values[0])), values)
            if self.kind == "number":
                return Discrete(values)
        return Categorical(values)

    def best(self, value: Hashable) -> float:
        """Lowest latency of a value in seconds; infinite without a successful trial."""
        return min(self.latencies.get(value, ()), default=math.inf)

    def describe(self, value: Hashable) -> str:
        """The effect of a vertex on the schedule."""
        return describe_value(self.name, self.kind, value)

    @property
    def edges(self) -> Iterator[tuple[int, int]]:
        """Pairs of the indices of adjacent vertices, each once."""
        for i, value in enumerate(self.topology):
            for neighbour in self.topology.neighbours(value):
                j = self.topology.index(neighbour)
                if i < j:
                    yield i, j


def complete_knobs(tasks: Sequence[Task], recorded: Mapping[str, list[Any]]) -> list[Knob]:
    """The knobs of a task, given its trials in each log, and the topologies in a run log as JSON.

    Values become vertices in the trials, too: AutoTVM's log lacks the outermost part of a tile. A
    topology is unknown if a value is no vertex, such as of a template that has changed since.
    """
    values: defaultdict[str, set[Value]] = defaultdict(set)
    for trial in (trial for task in tasks for trial in task.trials):
        for name, value in trial.knobs.items():
            values[name].add(value)
    recorded = {printable(name): topology for name, topology in recorded.items()}
    topologies: dict[str, Topology] = {}
    vertices: dict[tuple[str, Value], Value] = {}
    for name, same in values.items():
        with suppress(LookupError, TypeError, ValueError):  # damaged, or unknown
            full = from_json(*recorded[name]) if name in recorded else _from_traces(same)
            vertices |= {(name, value): _vertex(full, value) for value in same}
            topologies[name] = full
    knobs: dict[str, Knob] = {}
    for task in tasks:
        for i, trial in enumerate(task.trials):
            completed = {name: vertices.get((name, v), v) for name, v in trial.knobs.items()}
            task.trials[i] = trial._replace(knobs=completed)
            for name, value in completed.items():
                if name not in knobs:
                    knobs[name] = Knob(name, value.kind, full=topologies.get(name))
                if value.kind != knobs[name].kind:  # such as a knob that is a number or None
                    knobs[name].kind = "choice"
                knobs[name].latencies.setdefault(value.value, []).append(trial.latency)
    return list(knobs.values())


def _from_traces(values: Iterable[Value]) -> Topology:
    """The graph of all values, by some; `ValueError` if traces do not say it, or differ."""
    ((kind, domain),) = {(value.kind, value.domain) for value in values}
    if isinstance(domain, tuple):
        return Categorical(dict.fromkeys(domain))
    if kind != "tile" or not isinstance(domain, int):
        raise ValueError("no trace")
    tile: Any = next(iter(values)).value
    full = Factorization(math.prod(tile), len(tile))
    if not 0 < domain < full.product or full.size > _MAX_ENUMERATED:
        return full
    return InducedSubgraph(full, [tile for tile in full if tile[-1] <= domain])


def _vertex(topology: Topology, value: Value) -> Value:
    """The vertex that a value of a log is; raises `ValueError` if there is none.

    The outermost part of a tile that a log lacks follows from the loop's extent; vertices of tiles
    with tails lack it. AutoTVM's categories are JSON.
    """
    vertex: Any = value.value
    forms = [(value.kind, vertex)]
    if value.kind == "inner tile":
        forms.append(("tile", (topology.extent // math.prod(vertex), *vertex)))
    elif value.kind == "tile":
        forms.append(("inner tile", vertex[1:]))
    if not isinstance(vertex, str):
        forms.append((value.kind, json.dumps(vertex)))
    kind, vertex = next((form for form in forms if form[1] in topology), forms[0])
    return Value(kind, topology[topology.index(vertex)])


def positions(topology: Topology) -> Array:
    """x and y of each vertex, by index, within -1 to 1: numbers on a line, tiles by the logarithms
    of their parts, everything else on a circle.

    Each part of a tile has a direction, scaled by the part's logarithm: all edges that move the
    same prime between the same parts have the same length. Three parts give the paper's triangle;
    with more, the directions are irregular so that no two vertices coincide. With two parts, each
    prime has a direction instead: the tiles of 12 = 2 x 2 x 3 form a grid of three by two.
    """
    graph = topology.whole
    if isinstance(graph, (Factorization, Tiling)):
        inner = np.array([[math.log(part) for part in value] for value in topology])
        # the outermost part is the loop's extent divided by the inner ones
        if isinstance(graph, Tiling):
            inner = np.column_stack([-inner.sum(axis=1), inner])
        if inner.shape[1] == 2:
            points = _prime_exponents([int(value[-1]) for value in topology])
        else:
            points = inner @ _directions(inner.shape[1])
        points = points - (points.min(axis=0) + points.max(axis=0)) / 2  # to fill -1 to 1
        return np.asarray(points / max(float(np.abs(points).max()), 1e-9))
    if isinstance(topology, Discrete) or topology.size < 3:
        return np.column_stack([np.linspace(-1, 1, topology.size), np.zeros(topology.size)])
    angles = np.pi / 2 - 2 * np.pi * np.arange(topology.size) / topology.size
    return np.column_stack([np.cos(angles), np.sin(angles)])


def _prime_exponents(numbers: list[int]) -> Array:
    """Each prime has a direction in the first quadrant, scaled by the logarithm of its power."""
    factors = [prime_factors(number) for number in numbers]
    primes = sorted({p for exponents in factors for p in exponents}) or [2]
    angles = np.linspace(0, np.pi / 2, len(primes))
    logs = [math.log(p) for p in primes]  # of Python integers: they may exceed 64 bits
    powers = np.array([[exponents.get(p, 0) for p in primes] for exponents in factors]) * logs
    return np.asarray(powers @ np.column_stack([np.cos(angles), np.sin(angles)]))


def _directions(parts: int) -> Array:
    """Corners of a regular polygon; of more than three, each turned and moved outwards more."""
    j = np.arange(parts)
    skew = 0.0 if parts == 3 else 1.0
    angles, radii = np.pi / 2 + 2 * np.pi * j / parts + 0.23 * skew * j, 1 + 0.19 * skew * j
    return np.column_stack([radii * np.cos(angles), radii * np.sin(angles)])


def format_value(value: Any) -> str:
    """Format a value as a label; an annotation may be JSON, as vertices have it.

    >>> [format_value(value) for value in ((8, 2, 4), (0, 2, 1), ("none", "vec"), '["vec"]', 64)]
    ['8x2x4', '0 2 1', 'none vec', 'vec', '64']
    """
    if isinstance(value, str) and value.startswith('["'):
        annotations = jsonl.load(value)  # decodes JSON's escapes
        value = value if annotations is jsonl.MALFORMED else tuple(map(printable, annotations))
    if isinstance(value, tuple):
        is_tile = all(isinstance(part, int) for part in value) and min(value, default=0) > 0
        return ("x" if is_tile else " ").join(map(str, value))
    return str(value)


def describe_value(name: str, kind: str, value: Any) -> str:
    """Describe the value of a knob.

    >>> describe_value("tile_y", "inner tile", (2, 8)), describe_value("location of pad", "", -2)
    ('?x2x8', 'inlined')
    """
    text = format_value(value)
    if kind == "inner tile":
        return f"?x{text}"
    if name.startswith("location of "):
        return {"-2": "inlined", "-1": "outside all loops"}.get(text, f"in loop {text}")
    return text


def format_schedule(knobs: Mapping[str, Value]) -> str:
    """Format the knobs of a configuration, except tiles of loops with one iteration.

    >>> format_schedule({"y": Value("tile", (8, 1, 8)), "x": Value("tile", (1, 1, 1))})
    'y: 8x1x8'
    """
    return "; ".join(
        f"{name}: {describe_value(name, kind, value)}"
        for name, (kind, value, _) in knobs.items()
        if not (kind == "tile" and isinstance(value, tuple) and set(value) == {1})
    )
