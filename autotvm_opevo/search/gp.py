"""Gaussian process regression: the kernel on the knobs' graphs, hyperparameters by marginal
likelihood and priors, the posterior.

Notation
--------
n                   number of training points: evaluated configurations, or a subset of them
x, train_x          encoded points, shape (n, columns): the coordinates of all knobs, side by side
y                   a target, shape (n,)
train_y             targets, shape (n, targets), which share the kernel and its hyperparameters
d_i(x_i, x'_i)      distance between two values of knob i on its graph, in steps
s_j(x)              log-sum j, see below
a_i                 inverse lengthscale of knob or log-sum i, per step;
                    q_i = exp(-a_i) is the correlation per step
k(x, x')            the kernel, exp(-sum_i a_i d_i(x_i, x'_i) - sum_j a_j |s_j(x) - s_j(x')|)
gram                k(x, x), kernel between all training points, shape (n, n)
noise               noise variance, as a fraction of the signal variance
mean                means of the columns of train_y
factor              lower Cholesky factor of gram + noise I
alpha               (gram + noise I)^-1 (train_y - mean), shape (n, targets)
variance, sigma^2   signal variance of a target, (y - mean)^T alpha / n: its
                    maximum-likelihood estimate
whitened_cross_cov  factor^-1 k(train_x, x), shape (n, points)

A q-random walk reaches distance d with probability at most q^d (OpEvo, Gao et al., AAAI 2021,
Section 4.3): the farther one configuration is from another, the less its result says about the
other's. By analogy, the kernel is the exponential ARD kernel (Laplacian) on graph distances,

    k(x, x') = prod_i q_i ^ d_i(x_i, x'_i)

q_i is learned per knob and unrelated to the mutation rate: near 1 the knob is irrelevant, near 0
results at different values are uncorrelated.

d_i is the L1 distance between the `coordinates` of the topology, divided by the shortest edge at
the first vertex; between different values of a `Categorical` it is 1. It equals the graph distance
on lines, complete graphs and factorizations. Between permutations it is half the number of
positions that differ; in a split with a remainder, where moving a prime factor is one step, it
counts two; in an induced subgraph it is the distance in the whole graph. exp(-L1 distance) is
positive definite where coordinates are distinct, and so is k.

What a tiled kernel needs and how fast it runs goes by products over its loops: the threads of a
block are the same part of every tile multiplied, and so is what is kept in registers. So
factorizations with the same number of parts, three or more, also count together: log-sum s_j is
half the sum over them of log2 of part j, in steps like theirs. Distances on single knobs cannot
tell that two tilings have the same products.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cho_solve, cholesky, solve_triangular
from scipy.optimize import minimize
from scipy.spatial.distance import cdist

from autotvm_opevo.search.space import Space
from autotvm_opevo.topology import Graph, Topology

Array = np.ndarray[Any, np.dtype[np.float64]]

# Encodings are cached for topologies with at most this many vertices.
_MAX_CACHED = 1000
# Factorizations of at least so many parts have log-sums: those of two, outer and inner loops, need
# none.
_MIN_PARTS = 3
# Log-normal priors, by median and standard deviation of the logarithm: one step on a knob's graph
# keeps 87% of the correlation, 68% to 95% within one standard deviation. At the bounds a knob is
# irrelevant, its values are independent, or half of the variance is noise.
_INVERSE_LENGTHSCALE = 0.14
_INVERSE_LENGTHSCALE_SCALE = 1.0
_INVERSE_LENGTHSCALE_BOUNDS = (1e-3, 20.0)
_NOISE, _NOISE_SCALE, _NOISE_BOUNDS = 0.01, 2.0, (1e-4, 1.0)
_MAX_ITERATIONS = 20
# Maximum number of training points, and of those that hyperparameters are fitted to.
_MAX_TRAIN, _MAX_FIT = 400, 128
# Hyperparameters are fitted again when the number of results has grown by this factor.
_REFIT_GROWTH = 1.25
# Added to the diagonal for numerical stability.
JITTER = 1e-8


@dataclass(frozen=True)
class Hyperparameters:
    """What is learned from the data."""

    inverse_lengthscales: Array  # a_i = -ln q_i, per step on the knob's graph, shape (knobs,)
    noise: float  # variance, as a fraction of the signal variance


def prior_median(knobs: int) -> Hyperparameters:
    """Hyperparameters before any result: the medians of their priors."""
    return Hyperparameters(np.full(knobs, _INVERSE_LENGTHSCALE), _NOISE)


class EncodedValue(NamedTuple):
    """Coordinates of a knob's value, in steps, and log2 of the parts of a factorization."""

    coordinates: Array
    log_parts: Array


class KnobCoordinates:
    """Coordinates, in steps, of a knob's values, and of those of `peers`, the comparable knobs of
    other tasks; see `Topology.encoder`.

    There are `width` coordinates, and `parts` that a loop is tiled into, 0 for other knobs.
    """

    def __init__(self, topology: Topology, peers: Sequence[Graph] = ()) -> None:
        self.topology = topology
        self._encoder = topology.encoder(peers)
        self._cache: dict[int, EncodedValue] = {}
        self.width, self.parts = map(len, self.encode(topology[0]))

    def encode(self, value: Any) -> EncodedValue:
        """Coordinates and parts of a value."""
        coordinates, log_parts = self._encoder(value), self.topology.log_parts(value)
        return EncodedValue(
            np.asarray(coordinates, dtype=float), np.asarray(log_parts, dtype=float)
        )

    def encode_vertex(self, vertex: int) -> EncodedValue:
        """Coordinates and parts of the value with this index."""
        encoded = self._cache.get(vertex)
        if encoded is None:
            encoded = self.encode(self.topology[vertex])
            if self.topology.size <= _MAX_CACHED:
                self._cache[vertex] = encoded
        return encoded


class GraphKernel:
    """Exponential ARD kernel on graph distances; `size` is the number of knobs and log-sums."""

    def __init__(self, space: Space, knobs: Sequence[KnobCoordinates] | None = None) -> None:
        self._knobs = list(map(KnobCoordinates, space.knobs.values())) if knobs is None else knobs
        self._groups = self.groups([knob.parts for knob in self._knobs])
        sums = sum(self._knobs[group[0]].parts for group in self._groups)
        self.size = len(self._knobs) + sums
        widths = [*(knob.width for knob in self._knobs), *[1] * sums]
        categorical = [*(knob.topology.is_categorical for knob in self._knobs), *[False] * sums]
        self._knob_of = np.repeat(np.arange(self.size), widths)  # by column
        self._is_categorical = np.repeat(np.array(categorical, dtype=bool), widths)

    @staticmethod
    def groups(parts: Sequence[int]) -> list[list[int]]:
        """Factorizations that have log-sums: at least two with the same number of parts, given that
        of each knob.

        >>> GraphKernel.groups([3, 2, 4, 3, 2])
        [[0, 3]]
        """
        groups = [
            [i for i, mine in enumerate(parts) if mine == number]
            for number in sorted(set(parts))
            if number >= _MIN_PARTS
        ]
        return [group for group in groups if len(group) > 1]

    def encode(self, configurations: Iterable[Sequence[int]]) -> Array:
        """Coordinates in steps, shape (n, columns), by vertex numbers."""
        rows = list(configurations)
        return self._join(
            len(rows),
            [[knob.encode_vertex(row[i]) for row in rows] for i, knob in enumerate(self._knobs)],
        )

    def _join(self, n: int, values: Sequence[Sequence[EncodedValue]]) -> Array:
        """Coordinates of all knobs, and log-sums, side by side."""
        columns = [np.empty((n, 0))]
        for knob, rows in zip(self._knobs, values):
            columns.append(np.array([row.coordinates for row in rows]).reshape(n, knob.width))
        for group in self._groups:
            logs = np.array([row.log_parts for i in group for row in values[i]])
            columns.append(logs.reshape(len(group), n, self._knobs[group[0]].parts).sum(axis=0) / 2)
        return np.concatenate(columns, axis=1)

    def pairwise_distances(self, x: Array) -> Array:
        """Steps between all pairs of points on each knob's graph, shape (size, n, n)."""
        distances = np.zeros((self.size, len(x), len(x)))
        for i, categorical, column in zip(self._knob_of, self._is_categorical, x.T):
            distances[i] += (
                column[:, None] != column if categorical else abs(column[:, None] - column)
            )
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
        """Hyperparameters for targets `y`, shape (n,), searched from `start`."""
        return fit_hyperparameters(self.pairwise_distances(train_x), y, start)


def fit_hyperparameters(distances: Array, y: Array, start: Hyperparameters) -> Hyperparameters:
    """Maximum a posteriori hyperparameters, by L-BFGS-B on their logarithms, given the
    `GraphKernel.pairwise_distances` of the training points, and targets, which are not all equal.
    """
    result = minimize(
        neg_log_posterior,
        np.log([*start.inverse_lengthscales, start.noise]),
        (distances, (y - y.mean()) / y.std()),
        jac=True,
        method="L-BFGS-B",
        bounds=log_bounds(len(start.inverse_lengthscales)),
        options={"maxiter": _MAX_ITERATIONS},
    )
    *inverse_lengthscales, noise = np.exp(result.x)
    return Hyperparameters(np.array(inverse_lengthscales), noise)


def log_bounds(knobs: int) -> Array:
    """Bounds of the logarithms of the hyperparameters, shape (knobs + 1, 2)."""
    return np.log([_INVERSE_LENGTHSCALE_BOUNDS] * knobs + [_NOISE_BOUNDS])


def neg_log_posterior(
    log_hyperparameters: Array, distances: Array, y: Array
) -> tuple[float, Array]:
    """Negative log posterior density of the logarithms of the hyperparameters, up to a constant,
    and its gradient. The noise is the last of them; the mean of the targets is 0.
    """
    *inverse_lengthscales, noise = np.exp(log_hyperparameters)
    gram = np.exp(-np.tensordot(inverse_lengthscales, distances, 1))
    nll, d_gram = neg_log_marginal_likelihood(gram, noise, y)
    gradient = np.append(
        -np.array(inverse_lengthscales) * np.tensordot(distances, d_gram * gram, 2),
        noise * np.trace(d_gram),
    )
    nlp, d_prior = neg_log_prior(log_hyperparameters)
    return nll + nlp, gradient + d_prior


def neg_log_marginal_likelihood(gram: Array, noise: float, y: Array) -> tuple[float, Array]:
    """Negative log marginal likelihood of the targets, up to a constant, and its derivative with
    respect to the Gram matrix.

    The signal variance is profiled out: it takes its maximum-likelihood value.
    """
    n = len(y)
    factor = cholesky(gram + (noise + JITTER) * np.eye(n), lower=True)
    inverse = cho_solve((factor, True), np.eye(n))
    alpha = inverse @ y
    variance = y @ alpha / n
    nll = n * np.log(variance) / 2 + np.log(np.diag(factor)).sum()
    return nll, (inverse - np.outer(alpha, alpha) / variance) / 2


def neg_log_prior(log_hyperparameters: Array) -> tuple[float, Array]:
    """Negative log prior density, up to a constant, and its gradient; see `neg_log_posterior`."""
    knobs = len(log_hyperparameters) - 1
    scales = np.array([_INVERSE_LENGTHSCALE_SCALE] * knobs + [_NOISE_SCALE])
    z = (log_hyperparameters - np.log([_INVERSE_LENGTHSCALE] * knobs + [_NOISE])) / scales
    return z @ z / 2, z / scales


class GaussianProcess:
    """A Gaussian process on a subsample of the results, which is refitted as these arrive."""

    def __init__(self, kernel: GraphKernel, rng: np.random.Generator) -> None:
        self._kernel, self._rng = kernel, rng
        self.hyperparameters, self._fitted_to = prior_median(kernel.size), -1

    def posterior(self, train_x: Array, train_y: Array, own: int, x: Array) -> Posterior:
        """Posterior at `x`, from a subsample of many results: half of it the best, half random.

        The first target says which are best, and is what hyperparameters are fitted to. `own` is
        the number of results of the task that is tuned.
        """
        y = train_y[:, 0]
        train, fit = self._subsample(y, _MAX_TRAIN), self._subsample(y, _MAX_FIT)
        if (
            own > self._fitted_to
            and own >= _REFIT_GROWTH * self._fitted_to
            and np.ptp(y[fit]) > 1e-9
        ):
            self.hyperparameters = self._kernel.fit(train_x[fit], y[fit], self.hyperparameters)
            self._fitted_to = own
        return Posterior(self._kernel, self.hyperparameters, train_x[train], train_y[train], x)

    def _subsample(self, y: Array, size: int) -> np.ndarray[Any, np.dtype[np.intp]]:
        """Indices of at most `size` results: all, or half of them the best, and half at random."""
        order = np.argsort(-y, kind="stable")
        if len(order) <= size:
            return order
        rest = self._rng.choice(order[size // 2 :], size - size // 2, replace=False)
        return np.concatenate([order[: size // 2], rest])


class Posterior:
    """Posterior of a Gaussian process at some points, which can be conditioned on pending
    evaluations, one after the other. `mean` has the shape (points, targets).
    """

    def __init__(
        self,
        kernel: GraphKernel,
        hyperparameters: Hyperparameters,
        train_x: Array,
        train_y: Array,
        x: Array,
    ) -> None:
        self._kernel = kernel
        self._inverse_lengthscales = hyperparameters.inverse_lengthscales
        self._x = x
        self._noise = hyperparameters.noise + JITTER
        gram = kernel.gram(train_x, train_x, self._inverse_lengthscales)
        factor = cholesky(gram + self._noise * np.eye(len(train_x)), lower=True)
        mean = train_y.mean(axis=0)
        alpha = cho_solve((factor, True), train_y - mean)
        cross = kernel.gram(train_x, x, self._inverse_lengthscales)
        self.mean: Array = mean + cross.T @ alpha
        self._sigma = np.sqrt(np.maximum(((train_y - mean) * alpha).mean(axis=0), 1e-24))
        self._whitened_cross_cov = solve_triangular(factor, cross, lower=True)
        # Without noise, as a fraction of the signal variance.
        self._variance = 1 - (self._whitened_cross_cov**2).sum(axis=0)
        # rows u; each subtracts u u^T from the posterior covariance
        self._updates: list[Array] = []

    @property
    def stddev(self) -> Array:
        """Posterior standard deviation, shape (points, targets)."""
        return np.outer(np.sqrt(np.maximum(self._variance, 1e-12)), self._sigma)

    def condition_on(self, j: int) -> None:
        """Condition the variance on a pending evaluation of point j, as if it gave the mean."""
        (covariance,) = self._kernel.gram(self._x[[j]], self._x, self._inverse_lengthscales)
        covariance -= self._whitened_cross_cov.T @ self._whitened_cross_cov[:, j]
        for update in self._updates:
            covariance -= update[j] * update
        update = covariance / np.sqrt(max(self._variance[j], 0.0) + self._noise)
        self._updates.append(update)
        self._variance = self._variance - update**2
