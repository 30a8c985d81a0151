"""Transfer: results of other tasks in the model of one.

The task is one more knob of the kernel: a star, whose centre is the task that is tuned, with an
edge to each of the others. So q of an edge is the correlation with one of them: near 1 it carries
over whole, near 0 it is ignored. It is the task covariance of a multi-task Gaussian process, in
which two other tasks are correlated through the centre only, by q_s q_t.

What is left is a common scale: the fitness of one task means nothing to another. So the fitness of
each task is divided by its best, and every task has a mean of its own on the logarithmic scale,
estimated by generalised least squares under the kernel: what a task's results say beyond what the
others' let expect.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from heapq import nsmallest
from itertools import chain, zip_longest
from typing import Any, NamedTuple, TypeVar

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from autotvm_opevo.search.acquisition import Model, log_fitness
from autotvm_opevo.search.base import check_fitness
from autotvm_opevo.search.gp import EncodedValue, GraphKernel, KnobCoordinates
from autotvm_opevo.search.space import Configuration, Space
from autotvm_opevo.topology import Topology

Array = np.ndarray[Any, np.dtype[Any]]
T = TypeVar("T")

# Maximum number of other tasks, and of their results in all.
_MAX_SOURCES, _MAX_RESULTS = 8, 128
# A task that is further away than the nearest by more than this is not used: products of many rows
# say little about one row.
_MAX_DOUBLINGS = 5
# Number of the sources' best configurations that are candidates.
_PORTFOLIO = 32
# At most this many vertices are looked at for the one that is nearest to a value, and this many
# neighbours of a vertex.
_MAX_SPREAD, _MAX_NEIGHBOURS = 1000, 1000
# The coordinate of no category, unlike that of any.
_NO_CATEGORY = -2


class Source(NamedTuple):
    """Results of a task: fitness by index in its space, 0 for failures. Entries may be appended
    while it is used; one that changes is noticed with the next that is appended.
    """

    space: Space
    results: Mapping[int, float]
    origin: str = ""  # where they come from, such as a file; empty if that does not matter


class SharedKnob(KnobCoordinates):
    """Coordinates, in steps, of a knob's values, and of the values that it has in other tasks.

    The topology says which of those are comparable, and how: see its `is_comparable` and `encoder`.
    Values of a task whose knob is not, or that has none of this name (None), are as far from all
    others as their average.
    """

    def __init__(self, topology: Topology, others: Sequence[Topology | None]) -> None:
        peers = [
            other if other is not None and topology.is_comparable(other) else None
            for other in others
        ]
        self._comparable = [peer is not None for peer in peers]
        super().__init__(topology, [peer for peer in peers if peer is not None])
        count = min(topology.size, _MAX_SPREAD)
        # all vertices, or a thousand of them
        self._spread = [i * topology.size // count for i in range(count)]
        self._spread_coordinates: Array | None = None
        absent = np.full(self.width, _NO_CATEGORY)
        if not topology.is_categorical and not all(self._comparable):
            absent = self._coordinates_of_spread().mean(axis=0)
        self._absent = EncodedValue(
            absent, np.full(self.parts, math.log2(topology.extent) / max(self.parts, 1))
        )

    def encode_other(self, task: int, value: Any) -> EncodedValue:
        """Coordinates and parts of a value of another task."""
        return self.encode(value) if self._comparable[task] else self._absent

    def nearest(self, task: int, value: Any) -> int:
        """Vertex nearest to another task's value; in a large graph, nearer than its neighbours."""
        if self._comparable[task] and value in self.topology:
            return self.topology.index(value)
        point = self.encode_other(task, value).coordinates
        vertex = self._spread[int(abs(self._coordinates_of_spread() - point).sum(axis=1).argmin())]
        return vertex if len(self._spread) == self.topology.size else self._descend(vertex, point)

    def _coordinates_of_spread(self) -> Array:
        if self._spread_coordinates is None:
            self._spread_coordinates = np.array(
                [self.encode_vertex(vertex).coordinates for vertex in self._spread]
            )
        return self._spread_coordinates

    def _descend(self, vertex: int, point: Array) -> int:
        """Step to the neighbour that is nearest to a point, as long as it is nearer."""

        def distance(value: Any) -> float:
            return float(abs(self.encode(value).coordinates - point).sum())

        value = self.topology[vertex]
        while distance(
            step := min(self.topology.neighbours(value)[:_MAX_NEIGHBOURS], key=distance)
        ) < distance(value):
            value = step
        return self.topology.index(value)


class MultiTaskKernel(GraphKernel):
    """Kernel on the knobs' graphs and on the tasks, whose knobs are known by their names."""

    def __init__(self, space: Space, others: Sequence[Space]) -> None:
        self._shared = {
            name: SharedKnob(topology, [other.knobs.get(name) for other in others])
            for name, topology in space.knobs.items()
        }
        super().__init__(space, list(self._shared.values()))
        self._others = len(others)
        self._knob_of = np.append(self._knob_of, self.size + np.arange(self._others))
        self._is_categorical = np.append(self._is_categorical, np.zeros(self._others, dtype=bool))
        self.size += self._others

    def encode(self, configurations: Iterable[Sequence[int]]) -> Array:
        """See `GraphKernel.encode`."""
        own = super().encode(configurations)
        return np.concatenate([own, np.zeros((len(own), self._others))], axis=1)

    def encode_other(self, task: int, configurations: Iterable[Configuration]) -> Array:
        """Coordinates in steps, shape (n, columns), of another task's configurations."""
        rows = list(configurations)
        values = [
            [knob.encode_other(task, row.get(name)) for row in rows]
            for name, knob in self._shared.items()
        ]
        edges = np.zeros((len(rows), self._others))
        edges[:, task] = 1
        return np.concatenate([self._join(len(rows), values), edges], axis=1)

    def nearest(self, task: int, configuration: Configuration) -> list[int]:
        """Vertex numbers of the tuned task's configuration that is nearest to another task's."""
        return [knob.nearest(task, configuration.get(name)) for name, knob in self._shared.items()]


class TransferModel(Model):
    """A model that knows results of other tasks, and can do without its own."""

    def __init__(self, space: Space, rng: np.random.Generator, sources: Sequence[Source]) -> None:
        self._tasks = MultiTaskKernel(space, [source.space for source in sources])
        super().__init__(space, rng, self._tasks, min_results=0)
        self.sources = sources
        self._selected: list[tuple[Array, Array]] = [(np.empty(0), np.empty(0))] * len(sources)
        self._portfolio: list[tuple[int, float]] = []
        self._portfolio_of: list[int] = []  # numbers of results, when it was made
        self._nearest: dict[tuple[int, int], int] = {}  # by source and its configuration
        self._selected_of = [0] * len(sources)  # results, when some of them were selected

    def portfolio(self) -> list[tuple[int, float]]:
        """The sources' best, in turn, as the nearest configurations here, with fitness relative to
        each source's best.
        """
        counts = [len(source.results) for source in self.sources]
        if counts == self._portfolio_of:
            return self._portfolio
        ranked = []
        for task, source in enumerate(self.sources):
            best = nsmallest(_PORTFOLIO, source.results.items(), key=lambda entry: -entry[1])
            ranked.append([(task, number, value / best[0][1]) for number, value in best if value])
        portfolio: dict[int, float] = {}
        for task, number, relative in filter(None, chain.from_iterable(zip_longest(*ranked))):
            if (task, number) not in self._nearest:
                configuration = self.sources[task].space[number]
                vertices = self._tasks.nearest(task, configuration)
                self._nearest[task, number] = self._space.number(vertices)
            portfolio.setdefault(self._nearest[task, number], relative)
            if len(portfolio) == _PORTFOLIO:
                break
        self._portfolio, self._portfolio_of = list(portfolio.items()), counts
        return self._portfolio

    def _training_set(self, results: Mapping[int, float]) -> tuple[Array, Array]:
        parts = [
            super()._training_set(results),
            *(self._select(task) for task in range(len(self.sources))),
        ]
        x, y = (np.concatenate(arrays) for arrays in zip(*parts))
        return x, self._align(
            x, y, np.repeat(np.arange(len(parts)), [len(log_f) for _, log_f in parts])
        )

    def _select(self, task: int) -> tuple[Array, Array]:
        """Some results of a source."""
        space, results = self.sources[task].space, self.sources[task].results
        if self._selected_of[task] != len(results):
            size = max(2, _MAX_RESULTS // len(self.sources))
            numbers = np.array(list(results), dtype=object)
            fitness = np.array(list(results.values()))
            order = subsample(np.argsort(-fitness, kind="stable").tolist(), size)
            encoded = self._tasks.encode_other(task, [space[number] for number in numbers[order]])
            self._selected[task] = (encoded, log_fitness(fitness[order]))
            self._selected_of[task] = len(results)
        return self._selected[task]

    def _align(self, x: Array, y: Array, tasks: Array) -> Array:
        """Log fitness on a common scale."""
        feasible = ~np.isnan(y)
        own = np.flatnonzero(feasible & (tasks == 0))
        others = np.flatnonzero(feasible & (tasks > 0))
        if len(own) > _MAX_RESULTS:
            own = own[np.linspace(0, len(own) - 1, _MAX_RESULTS).astype(int)]
        used = np.concatenate([own, others])
        if not used.size:
            return y
        present = np.unique(tasks[used])
        members = (tasks[used, None] == present).astype(float)
        hyperparameters = self._objective.hyperparameters
        gram = self._kernel.gram(x[used], x[used], hyperparameters.inverse_lengthscales)
        factor = cho_factor(gram + hyperparameters.noise * np.eye(len(gram)), lower=True)
        weighted = cho_solve(factor, members)
        centre = y[others].mean() if others.size else 0.0
        # Of few results, the mean of the task that is tuned is near those of the others.
        prior = np.diag((present == 0).astype(float))
        means = np.linalg.solve(members.T @ weighted + prior, weighted.T @ (y[used] - centre))
        aligned: Array = y - (tasks[:, None] == present) @ means
        return aligned


def nearest_sources(space: Space, sources: Sequence[Source]) -> list[Source]:
    """Up to eight sources: the nearest, and others that are not much less similar."""
    ranked = ((_dissimilarity(space, source.space), i) for i, source in enumerate(sources))
    nearest = [ranking for ranking in nsmallest(_MAX_SOURCES, ranked) if ranking[0] < np.inf]
    return [sources[i] for far, i in nearest if far <= nearest[0][0] + _MAX_DOUBLINGS]


def _dissimilarity(space: Space, other: Space) -> float:
    """Number of knobs without a counterpart, plus doublings between extents of tiled loops;
    infinite if no knob has a counterpart.
    """
    pairs = [
        (topology, peer)
        for name, topology in space.knobs.items()
        if (peer := other.knobs.get(name)) is not None and topology.is_comparable(peer)
    ]
    unmatched = len(space.knobs.keys() | other.knobs.keys()) - len(pairs)
    doublings = sum(abs(np.log2(topology.extent / peer.extent)) for topology, peer in pairs)
    return unmatched + doublings if pairs else np.inf


def source_of(entry: tuple[Space, Sequence[Configuration], Sequence[float]]) -> Source:
    """The source that an entry of an `OpEvo`'s history is; raises `ValueError` if it is invalid."""
    if not (isinstance(entry, Sequence) and len(entry) == 3 and isinstance(entry[0], Space)):
        kind = type(entry).__name__
        raise ValueError(
            "history must be a list of (space, configurations, fitnesses), one for each "
            f"task; it has a {kind}"
        )
    space, configurations, fitnesses = entry
    if len(configurations) != len(fitnesses):
        raise ValueError(
            f"history needs one fitness per configuration, {len(fitnesses)} given for "
            f"{len(configurations)}"
        )
    return Source(space, dict(zip(map(space.index, configurations), map(check_fitness, fitnesses))))


def subsample(ranked: Sequence[T], size: int) -> list[T]:
    """At most `size` of results that are ranked, the best first: the best half as they are, the
    others thinned out, since a model needs an order of them, too.

    >>> subsample(range(100), 6)
    [0, 1, 2, 3, 51, 99]
    """
    best = size // 2
    if len(ranked) <= size:
        return list(ranked)
    return [
        *ranked[:best],
        *(ranked[i] for i in np.linspace(best, len(ranked) - 1, size - best).astype(int)),
    ]
