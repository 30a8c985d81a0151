"""What walks on the knobs' graphs let one believe of configurations that were not evaluated: a Gaussian process.

A q-random walk gets d steps far with probability q^d at most (Section 4.3): the further it has to go from one configuration to
another, the less the one says about the other. That suggests, for the correlation of what they achieve,

    k(x, x') = prod_i q_i ^ d_i(x_i, x'_i)

where d_i counts steps on knob i's graph. Every knob has a q_i of its own, learned from what was evaluated and unrelated to the
mutation rate: near 1 the knob does not matter, near 0 each of its values is on its own.

d_i is the L1 distance of the topology's `coordinates`, in steps, and 1 between different values of a `Categorical`. On lines,
complete graphs and factorizations that is the distance on the graph; between permutations it is half the number of places that
differ; between tiles with tails, where moving a prime is one step, it counts two; between vertices of an induced subgraph it
is that of the whole graph. exp(-L1 distance) is positive definite, and so is k, on every space. The law of the walk itself, which
is another such kernel, is in `benchmarks.ablation`: it is no better, and needs the eigenvectors of every graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import cho_solve, cholesky, solve_triangular
from scipy.optimize import minimize
from scipy.spatial.distance import cdist

from autotvm_opevo.search.space import Space
from autotvm_opevo.topology import Categorical, InducedSubgraph
from autotvm_opevo.topology.base import Graph

Array = np.ndarray[Any, np.dtype[np.float64]]

# What is believed before anything is known: -ln q and the noise have these medians, and their logarithms are normal with these
# standard deviations. A step on a knob's graph leaves 87% of the correlation, or anything from 68% to 95%.
# Beyond the ranges a knob does not matter, or all of its values are on their own, and noise is all or nothing.
_DECAY, _DECAY_SPREAD, _DECAY_RANGE = 0.14, 1.0, (1e-3, 20.0)
_NOISE, _NOISE_SPREAD, _NOISE_RANGE = 0.01, 2.0, (1e-4, 1.0)
_ITERATIONS = 20
# On the diagonal, so that rounding leaves it positive definite.
_JITTER = 1e-8
# Rows are remembered where a topology has up to so many vertices.
_SMALL = 1000


class Kernel:
    """How much configurations of a space say about each other: those that few steps part, most.

    Parameters
    ----------
    space : Space
    """

    def __init__(self, space: Space) -> None:
        self._topologies = list(space.knobs.values())
        graphs = [topology.graph if isinstance(topology, InducedSubgraph) else topology for topology in self._topologies]
        self._scales = [1 / _step(graph, topology[0]) for graph, topology in zip(graphs, self._topologies)]
        self._remembered: list[dict[int, Array]] = [{} for _ in self._topologies]
        widths = [len(topology.coordinates(topology[0])) for topology in self._topologies]
        self._knobs = np.repeat(np.arange(len(widths)), widths)  # whose a column is
        self._unordered = np.array([isinstance(graphs[i], Categorical) for i in self._knobs], dtype=bool)

    def points(self, configurations: Iterable[Sequence[int]]) -> Array:
        """Configurations, given by their vertices' numbers, as rows of coordinates, in steps."""
        rows = list(configurations)
        columns = [np.array([self._row(i, row[i]) for row in rows]) for i in range(len(self._topologies))]
        return np.concatenate(columns, axis=1) if rows and columns else np.empty((len(rows), len(self._knobs)))

    def distances(self, points: Array) -> Array:
        """The steps on each knob between any two points, shape (knobs, points, points)."""
        apart = np.zeros((len(self._topologies), len(points), len(points)))
        for i, unordered, column in zip(self._knobs, self._unordered, points.T):
            apart[i] += column[:, None] != column if unordered else abs(column[:, None] - column)
        return apart

    def correlations(self, first: Array, second: Array, decay: Array) -> Array:
        """k of every point of the first and every one of the second, where `decay` holds each knob's -ln q."""
        scales = decay[self._knobs]
        lines = scales * ~self._unordered
        apart = cdist(first * lines, second * lines, "cityblock")
        for column in np.flatnonzero(self._unordered):
            apart += scales[column] * (first[:, column, None] != second[:, column])
        correlations: Array = np.exp(-apart)
        return correlations

    def _row(self, i: int, vertex: int) -> Array:
        row = self._remembered[i].get(vertex)
        if row is None:
            topology = self._topologies[i]
            row = np.multiply(topology.coordinates(topology[vertex]), self._scales[i])
            if topology.size <= _SMALL:
                self._remembered[i][vertex] = row
        return row


def _step(graph: Graph, start: Any) -> float:
    """How far the coordinates of the nearest neighbour are: on most graphs, of any."""
    here = np.array(graph.coordinates(start))
    beside = list(graph.neighbours(start)[:_SMALL])
    steps = [float(abs(here - graph.coordinates(value)).sum()) for value in beside]
    if 0.0 in steps:
        raise ValueError(
            f"coordinates must tell neighbours apart, and no value be its own neighbour: {graph!r} has the same ones for "
            f"{start!r} and {beside[steps.index(0.0)]!r}"
        )
    return min(steps, default=1.0)


@dataclass(frozen=True)
class Rates:
    """What is learned.

    Attributes
    ----------
    decay : array of float, shape (knobs,)
        -ln q_i: how quickly one value of a knob ceases to say something about the others.
    noise : float
        The variance that the knobs do not explain, as a part of that which they do.
    """

    decay: Array
    noise: float


def believed(knobs: int) -> Rates:
    """The rates of so many knobs before anything was evaluated."""
    return Rates(np.full(knobs, _DECAY), _NOISE)


def learned(distances: Array, values: Array, start: Rates) -> Rates:
    """The most probable rates after some values, sought from `start`.

    Parameters
    ----------
    distances : array of float, shape (knobs, n, n)
    values : array of float, shape (n,)
        Not all the same.
    start : Rates
    """
    found = minimize(
        improbability,
        np.log([*start.decay, start.noise]),
        (distances, (values - values.mean()) / values.std()),
        jac=True,
        method="L-BFGS-B",
        bounds=bounds(len(start.decay)),
        options={"maxiter": _ITERATIONS},
    )
    *decay, noise = np.exp(found.x)
    return Rates(np.array(decay), noise)


def bounds(knobs: int) -> Array:
    """Within which the logarithms of the rates are sought, shape (knobs + 1, 2)."""
    return np.log([_DECAY_RANGE] * knobs + [_NOISE_RANGE])


def improbability(logarithms: Array, distances: Array, values: Array) -> tuple[float, Array]:
    """The negative logarithm of the rates' probability after some values, up to a constant, and its gradient.

    Parameters
    ----------
    logarithms : array of float, shape (knobs + 1,)
        Of every knob's decay, and of the noise.
    distances : array of float, shape (knobs, n, n)
    values : array of float, shape (n,)
        With a mean of 0.
    """
    *decay, noise = np.exp(logarithms)
    correlations = np.exp(-np.tensordot(decay, distances, 1))
    surprised, slopes = surprise(correlations, noise, values)
    gradient = np.append(-np.array(decay) * np.tensordot(distances, slopes * correlations, 2), noise * np.trace(slopes))
    doubted, doubts = doubt(logarithms)
    return surprised + doubted, gradient + doubts


def surprise(correlations: Array, noise: float, values: Array) -> tuple[float, Array]:
    """The negative logarithm of the values' likelihood, up to a constant, and its slopes by the correlations.

    The variance is the one that makes the values most likely.
    """
    n = len(values)
    factor = cholesky(correlations + (noise + _JITTER) * np.eye(n), lower=True)
    inverse = cho_solve((factor, True), np.eye(n))
    weights = inverse @ values
    variance = values @ weights / n
    likelihood = n * np.log(variance) / 2 + np.log(np.diag(factor)).sum()
    return likelihood, (inverse - np.outer(weights, weights) / variance) / 2


def doubt(logarithms: Array) -> tuple[float, Array]:
    """The negative logarithm of the rates' probability before any value, up to a constant, and its gradient."""
    knobs = len(logarithms) - 1
    spreads = np.array([_DECAY_SPREAD] * knobs + [_NOISE_SPREAD])
    off = (logarithms - np.log([_DECAY] * knobs + [_NOISE])) / spreads
    return off @ off / 2, off / spreads


class Process:
    """A Gaussian process after some values.

    Several kinds of values can be given for the same points: they share the correlations.

    Parameters
    ----------
    kernel : Kernel
    points : array of float, shape (n, columns)
    values : array of float, shape (n, kinds)
    rates : Rates
    """

    def __init__(self, kernel: Kernel, points: Array, values: Array, rates: Rates) -> None:
        self._kernel, self._points, self._decay = kernel, points, rates.decay
        self._noise = rates.noise + _JITTER
        correlations = kernel.correlations(points, points, rates.decay) + self._noise * np.eye(len(points))
        self._factor = cholesky(correlations, lower=True)
        self._mean = values.mean(axis=0)
        self._weights = cho_solve((self._factor, True), values - self._mean)
        self._deviations = np.sqrt(np.maximum(((values - self._mean) * self._weights).mean(axis=0), 1e-24))

    def expect(self, points: Array) -> Expectation:
        """What the process says of other points."""
        correlations = self._kernel.correlations(self._points, points, self._decay)
        return Expectation(
            self._mean + correlations.T @ self._weights,
            self._deviations,
            solve_triangular(self._factor, correlations, lower=True),
            lambda j: self._kernel.correlations(points, points[j : j + 1], self._decay)[:, 0],
            self._noise,
        )


class Expectation:
    """What a process says of some points, while some of them are chosen to be evaluated.

    Attributes
    ----------
    mean : array of float, shape (points, kinds)
    """

    def __init__(
        self, mean: Array, deviations: Array, explained: Array, correlations_with: Callable[[int], Array], noise: float
    ) -> None:
        self.mean = mean
        self._deviations, self._explained, self._correlations_with, self._noise = deviations, explained, correlations_with, noise
        self._variance = 1 - (explained**2).sum(axis=0)
        self._chosen: list[Array] = []  # what each has explained since

    def deviation(self, kind: int) -> Array:
        """Standard deviations, shape (points,)."""
        deviations: Array = self._deviations[kind] * np.sqrt(np.maximum(self._variance, 1e-12))
        return deviations

    def choose(self, j: int) -> None:
        """Point j will be evaluated: whatever comes out, less will be uncertain around it."""
        covariances = self._correlations_with(j) - self._explained.T @ self._explained[:, j]
        for row in self._chosen:
            covariances -= row[j] * row
        row = covariances / np.sqrt(max(self._variance[j], 0.0) + self._noise)
        self._chosen.append(row)
        self._variance = self._variance - row**2
