"""The kernel on the knobs' graphs, and on the tasks.

Notation
--------
x                    encoded configuration: the coordinates of all knobs, side by side
d_i(x_i, x'_i)       distance between two values of knob i on its graph, in steps
a_i                  inverse lengthscale of knob i, per step; q_i = exp(-a_i) is the correlation per step
s_j(x)               log-sum j, see below; b_j is its inverse lengthscale
k(x, x')             the kernel, exp(-sum_i a_i d_i(x_i, x'_i) - sum_j b_j |s_j(x) - s_j(x')|)

A q-random walk reaches distance d with probability at most q^d (OpEvo, Gao et al., AAAI 2021, Section 4.3): the farther one
configuration is from another, the less its result says about the other's. By analogy, the kernel is the exponential ARD kernel
(Laplacian) on graph distances,

    k(x, x') = prod_i q_i ^ d_i(x_i, x'_i)

q_i is learned per knob and unrelated to the mutation rate: near 1 the knob is irrelevant, near 0 results at different values are
uncorrelated.

d_i is the L1 distance between the `coordinates` of the topology, divided by the shortest edge at the first vertex;
between different values of a `Categorical` it is 1. It equals the graph distance on lines, complete graphs and factorizations.
Between permutations it is half the number of positions that differ; in a split with a remainder, where moving a prime factor
is one step, it counts two; in an induced subgraph it is the distance in the whole graph. exp(-L1 distance) is positive definite
where coordinates are distinct, and so is k.

What a tiled kernel needs and how fast it runs goes by products over its loops: the threads of a block are the same part of every
tile multiplied, and so is what is kept in registers. So factorizations with the same number of parts, three or more, also count
together: log-sum s_j is half the sum over them of log2 of part j, in steps like theirs. Distances on single
knobs cannot tell that two tilings have the same products.

With results of other tasks, the task is one more knob: a star, whose centre is the task that is tuned, with an edge to each of
the others. So q of an edge is the correlation with one of them: near 1 it carries over whole, near 0 it is ignored. It is the
task covariance of a multi-task Gaussian process, in which two other tasks are correlated through the centre only, by q_s q_t.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial.distance import cdist

from autotvm_opevo.search.gp import Hyperparameters, fit_hyperparameters
from autotvm_opevo.search.space import Configuration, Space
from autotvm_opevo.topology import Topology

Array = np.ndarray[Any, np.dtype[np.float64]]

# Encodings are cached for topologies with at most this many vertices; at most this many neighbours of a vertex are examined.
_MAX_CACHED, _MAX_NEIGHBOURS = 1000, 1000
# Factorizations of at least so many parts have log-sums: those of two, outer and inner loops, need none.
_MIN_PARTS = 3
# The coordinate of no category, unlike that of any.
_NO_CATEGORY = -2


class EncodedValue(NamedTuple):
    """What the kernel knows of a knob's value: its coordinates in steps, and log2 of the parts of a factorization."""

    coordinates: Array
    log_parts: Array


class GraphKernel:
    """Exponential ARD kernel on graph distances.

    Parameters
    ----------
    space : Space
        Of the task that is tuned.
    others : sequence of Space
        Of other tasks, whose knobs are known by their names.

    Attributes
    ----------
    size : int
        Number of inverse lengthscales: one for each knob of `space`, each log-sum, and each other task.
    """

    def __init__(self, space: Space, others: Sequence[Space] = ()) -> None:
        self._topologies = list(space.knobs.values())
        self._others = others
        self._knobs = [
            KnobCoordinates(topology, [other.knobs.get(name) for other in others]) for name, topology in space.knobs.items()
        ]
        self._names = list(space.knobs)
        self._groups = self.groups([knob.parts for knob in self._knobs])
        sums = sum(self._knobs[group[0]].parts for group in self._groups)
        self.size = len(self._knobs) + sums + len(others)
        self._cache: list[dict[int, EncodedValue]] = [{} for _ in self._knobs]
        widths = [*(knob.width for knob in self._knobs), *(1 for _ in range(sums + len(others)))]
        self._knob_of = np.repeat(np.arange(self.size), widths)  # by column
        categorical = [*(topology.is_categorical for topology in self._topologies), *(False for _ in range(sums + len(others)))]
        self._is_categorical = np.repeat(np.array(categorical, dtype=bool), widths)

    @staticmethod
    def groups(parts: Sequence[int]) -> list[list[int]]:
        """Factorizations that have log-sums: at least two with the same number of parts, given that of each knob.

        >>> GraphKernel.groups([3, 2, 4, 3, 2])
        [[0, 3]]
        """
        groups = [[i for i, mine in enumerate(parts) if mine == number] for number in sorted(set(parts)) if number >= _MIN_PARTS]
        return [group for group in groups if len(group) > 1]

    def encode(self, configurations: Iterable[Sequence[int]]) -> Array:
        """Coordinates in steps, shape (n, columns), of configurations given by their vertex numbers."""
        rows = list(configurations)
        knobs = range(len(self._knobs))
        return self._join(len(rows), [[self._encode_vertex(i, row[i]) for row in rows] for i in knobs])

    def encode_other(self, task: int, configurations: Iterable[Configuration]) -> Array:
        """Coordinates in steps, shape (n, columns), of another task's configurations."""
        rows = list(configurations)
        knobs = [[knob.encode_other_value(task, row.get(name)) for row in rows] for name, knob in zip(self._names, self._knobs)]
        encoded = self._join(len(rows), knobs)
        encoded[:, len(self._knob_of) - len(self._others) + task] = 1
        return encoded

    def _join(self, n: int, knobs: Sequence[Sequence[EncodedValue]]) -> Array:
        """Coordinates of all knobs, log-sums, and no edge to another task, side by side."""
        if n == 0:
            return np.empty((0, len(self._knob_of)))
        coordinates = [np.array([row.coordinates for row in rows]) for rows in knobs]
        sums = [np.array([row.log_parts for i in group for row in knobs[i]]) for group in self._groups]
        sums = [logs.reshape(len(group), n, -1).sum(axis=0) / 2 for group, logs in zip(self._groups, sums)]
        return np.concatenate([*coordinates, *sums, np.zeros((n, len(self._others)))], axis=1)

    def nearest(self, task: int, configuration: Configuration) -> list[int]:
        """Vertex numbers of the tuned task's configuration that is nearest to another task's."""
        return [knob.nearest(task, configuration.get(name)) for name, knob in zip(self._names, self._knobs)]

    def pairwise_distances(self, x: Array) -> Array:
        """Steps between all pairs of points on each knob's graph, shape (size, n, n)."""
        distances = np.zeros((self.size, len(x), len(x)))
        for i, categorical, column in zip(self._knob_of, self._is_categorical, x.T):
            distances[i] += column[:, None] != column if categorical else abs(column[:, None] - column)
        return distances

    def gram(self, x1: Array, x2: Array, inverse_lengthscales: Array) -> Array:
        """k(x1, x2), shape (n1, n2)."""
        weights = inverse_lengthscales[self._knob_of]
        numeric = weights * ~self._is_categorical
        distances = cdist(x1 * numeric, x2 * numeric, "cityblock")
        for column in np.flatnonzero(self._is_categorical):
            distances += weights[column] * (x1[:, column, None] != x2[:, column])
        gram: Array = np.exp(-distances)
        return gram

    def fit(self, train_x: Array, y: Array, start: Hyperparameters) -> Hyperparameters:
        """Hyperparameters for targets `y`, shape (n,), searched from `start`; see `fit_hyperparameters`."""
        return fit_hyperparameters(self.pairwise_distances(train_x), y, start)

    def _encode_vertex(self, i: int, vertex: int) -> EncodedValue:
        row = self._cache[i].get(vertex)
        if row is None:
            topology = self._topologies[i]
            row = self._knobs[i].encode_value(topology[vertex])
            if topology.size <= _MAX_CACHED:
                self._cache[i][vertex] = row
        return row


class KnobCoordinates:
    """Coordinates, in steps, of a knob's values, and of the values that it has in other tasks.

    The topology says which of those are comparable, and how: see its `is_comparable` and `encoder`. Values of a task whose knob
    is not, or that has none, are as far from all others as their average.

    Parameters
    ----------
    topology : Topology
        Of the task that is tuned.
    others : sequence of (Topology or None)
        Of the other tasks; None where there is no knob of this name.

    Attributes
    ----------
    width : int
        Number of coordinates.
    parts : int
        Number of parts that a loop is tiled into, 0 for other knobs.
    """

    def __init__(self, topology: Topology, others: Sequence[Topology | None] = ()) -> None:
        self._topology = topology
        self._comparable = [other is not None and topology.is_comparable(other) for other in others]
        peers = [other for other, comparable in zip(others, self._comparable) if other is not None and comparable]
        self._encoder = topology.encoder(peers)
        self.width, self.parts = len(self.encode(topology[0])), len(topology.log_parts(topology[0]))
        self._spread: tuple[list[int], Array] | None = None  # some vertices and their coordinates
        self._absent = np.full(self.width, _NO_CATEGORY)
        if not topology.is_categorical and not all(self._comparable):
            self._absent = np.mean([self.encode(topology[vertex]) for vertex in _spread(topology)], axis=0)
        self._absent_parts = np.full(self.parts, math.log2(topology.extent) / max(self.parts, 1))

    def encode(self, value: Any) -> Array:
        """Coordinates of a value of the task that is tuned, shape (width,)."""
        return np.asarray(self._encoder(value), dtype=float)

    def encode_value(self, value: Any) -> EncodedValue:
        """Coordinates and parts of a value of the task that is tuned, or of a comparable one."""
        return EncodedValue(self.encode(value), np.asarray(self._topology.log_parts(value), dtype=float))

    def encode_other_value(self, task: int, value: Any) -> EncodedValue:
        """Coordinates and parts of a value of another task."""
        if not self._comparable[task]:
            return EncodedValue(self._absent, self._absent_parts)
        return self.encode_value(value)

    def nearest(self, task: int, value: Any) -> int:
        """Vertex number of the value that is nearest to another task's; in a large graph, nearer than its neighbours."""
        if self._comparable[task] and value in self._topology:
            return self._topology.index(value)
        point = self.encode_other_value(task, value).coordinates
        if self._spread is None:
            vertices = _spread(self._topology)
            self._spread = vertices, np.array([self.encode(self._topology[vertex]) for vertex in vertices])
        vertices, encoded = self._spread
        found = vertices[int(abs(encoded - point).sum(axis=1).argmin())]
        return found if len(vertices) == self._topology.size else self._descend(found, point)

    def _descend(self, vertex: int, point: Array) -> int:
        """Step to the neighbour that is nearest to a point, as long as it is nearer."""

        def distance(value: Any) -> float:
            return float(abs(self.encode(value) - point).sum())

        value = self._topology[vertex]
        while distance(step := min(self._topology.neighbours(value)[:_MAX_NEIGHBOURS], key=distance)) < distance(value):
            value = step
        return self._topology.index(value)


def _spread(topology: Topology) -> list[int]:
    """All vertices, or a thousand of them."""
    count = min(topology.size, _MAX_CACHED)
    return [i * topology.size // count for i in range(count)]
