"""Gaussian process regression: hyperparameters by marginal likelihood and priors, and the posterior.

Notation
--------
n                    number of training points: evaluated configurations, or a subset of them
x, train_x           encoded points, shape (n, columns): the coordinates of all knobs, side by side
y                    a target, shape (n,)
train_y              targets, shape (n, targets), which share the kernel and its hyperparameters
a_i                  inverse lengthscale of knob i, per step; q_i = exp(-a_i) is the correlation per step
gram                 k(x, x), kernel between all training points, shape (n, n), exp(-sum_i a_i d_i)
noise                noise variance, as a fraction of the signal variance
mean                 means of the columns of train_y
factor               lower Cholesky factor of gram + noise I
alpha                (gram + noise I)^-1 (train_y - mean), shape (n, targets)
variance, sigma^2    signal variance of a target, (y - mean)^T alpha / n: its maximum-likelihood estimate
whitened_cross_cov   factor^-1 k(train_x, x), shape (n, points)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy.linalg import cho_solve, cholesky, solve_triangular
from scipy.optimize import minimize

Array = np.ndarray[Any, np.dtype[np.float64]]

# Log-normal priors, by median and standard deviation of the logarithm: one step on a knob's graph keeps 87% of the correlation,
# 68% to 95% within one standard deviation. At the bounds a knob is irrelevant, its values are independent, or half of the
# variance is noise.
_INVERSE_LENGTHSCALE, _INVERSE_LENGTHSCALE_SCALE, _INVERSE_LENGTHSCALE_BOUNDS = 0.14, 1.0, (1e-3, 20.0)
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
    """What is learned from the data.

    Attributes
    ----------
    inverse_lengthscales : array of float, shape (knobs,)
        a_i = -ln q_i, per step on the knob's graph.
    noise : float
        Noise variance, as a fraction of the signal variance.
    """

    inverse_lengthscales: Array
    noise: float


def prior_median(knobs: int) -> Hyperparameters:
    """Hyperparameters before any result: the medians of their priors."""
    return Hyperparameters(np.full(knobs, _INVERSE_LENGTHSCALE), _NOISE)


def fit_hyperparameters(distances: Array, y: Array, start: Hyperparameters) -> Hyperparameters:
    """Maximum a posteriori hyperparameters, by L-BFGS-B on their logarithms.

    Parameters
    ----------
    distances : array of float, shape (knobs, n, n)
        Of the training points, by knob; see `kernel.GraphKernel.pairwise_distances`.
    y : array of float, shape (n,)
        Targets, not all equal.
    start : Hyperparameters
        Where the optimiser starts.
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


def neg_log_posterior(log_hyperparameters: Array, distances: Array, y: Array) -> tuple[float, Array]:
    """Negative log posterior density of the logarithms of the hyperparameters, up to a constant, and its gradient.

    Parameters
    ----------
    log_hyperparameters : array of float, shape (knobs + 1,)
        Logarithms of the inverse lengthscales and of the noise.
    distances : array of float, shape (knobs, n, n)
    y : array of float, shape (n,)
        Targets with mean 0.
    """
    *inverse_lengthscales, noise = np.exp(log_hyperparameters)
    gram = np.exp(-np.tensordot(inverse_lengthscales, distances, 1))
    nll, d_gram = neg_log_marginal_likelihood(gram, noise, y)
    gradient = np.append(-np.array(inverse_lengthscales) * np.tensordot(distances, d_gram * gram, 2), noise * np.trace(d_gram))
    nlp, d_prior = neg_log_prior(log_hyperparameters)
    return nll + nlp, gradient + d_prior


def neg_log_marginal_likelihood(gram: Array, noise: float, y: Array) -> tuple[float, Array]:
    """Negative log marginal likelihood of the targets, up to a constant, and its derivative with respect to the Gram matrix.

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
    """Negative log prior density of the logarithms of the hyperparameters, up to a constant, and its gradient."""
    knobs = len(log_hyperparameters) - 1
    scales = np.array([_INVERSE_LENGTHSCALE_SCALE] * knobs + [_NOISE_SCALE])
    z = (log_hyperparameters - np.log([_INVERSE_LENGTHSCALE] * knobs + [_NOISE])) / scales
    return z @ z / 2, z / scales


class Kernel(Protocol):
    """What a Gaussian process needs of a kernel."""

    size: int

    def gram(self, x1: Array, x2: Array, inverse_lengthscales: Array) -> Array:
        """k(x1, x2), shape (n1, n2)."""

    def fit(self, train_x: Array, y: Array, start: Hyperparameters) -> Hyperparameters:
        """Hyperparameters for targets `y`, shape (n,), searched from `start`."""


class GaussianProcess:
    """A Gaussian process on a subsample of the results, whose hyperparameters are refitted as results arrive.

    Parameters
    ----------
    kernel : Kernel
    rng : numpy.random.Generator

    Attributes
    ----------
    hyperparameters : Hyperparameters
        Fitted last.
    """

    def __init__(self, kernel: Kernel, rng: np.random.Generator) -> None:
        self._kernel, self._rng = kernel, rng
        self.hyperparameters, self._fitted_to = prior_median(kernel.size), -1

    def posterior(self, train_x: Array, train_y: Array, own: int, x: Array) -> Posterior:
        """Posterior at `x`; of many results, the best half are used, and a random sample of the others.

        The first target says which are best, and is what hyperparameters are fitted to. `own` is the number of results of the
        task that is tuned.
        """
        y = train_y[:, 0]
        train, fit = self._subsample(y, _MAX_TRAIN), self._subsample(y, _MAX_FIT)
        if own > self._fitted_to and own >= _REFIT_GROWTH * self._fitted_to and np.ptp(y[fit]) > 1e-9:
            self.hyperparameters = self._kernel.fit(train_x[fit], y[fit], self.hyperparameters)
            self._fitted_to = own
        return Posterior(self._kernel, self.hyperparameters, train_x[train], train_y[train], x)

    def _subsample(self, y: Array, size: int) -> np.ndarray[Any, np.dtype[np.intp]]:
        """Indices of at most `size` results: all, or half of them the best and half drawn from the rest."""
        order = np.argsort(-y, kind="stable")
        if len(order) <= size:
            return order
        rest = self._rng.choice(order[size // 2 :], size - size // 2, replace=False)
        return np.concatenate([order[: size // 2], rest])


class Posterior:
    """Posterior of a Gaussian process at some points, which can be conditioned on pending evaluations, one after the other.

    Parameters
    ----------
    kernel : Kernel
    hyperparameters : Hyperparameters
    train_x : array of float, shape (n, columns)
        Encoded by the kernel.
    train_y : array of float, shape (n, targets)
    x : array of float, shape (points, columns)

    Attributes
    ----------
    mean : array of float, shape (points, targets)
    """

    def __init__(self, kernel: Kernel, hyperparameters: Hyperparameters, train_x: Array, train_y: Array, x: Array) -> None:
        self._kernel, self._inverse_lengthscales, self._x = kernel, hyperparameters.inverse_lengthscales, x
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
        self._updates: list[Array] = []  # rows u; each subtracts u u^T from the posterior covariance

    @property
    def stddev(self) -> Array:
        """Posterior standard deviation, shape (points, targets)."""
        return np.outer(np.sqrt(np.maximum(self._variance, 1e-12)), self._sigma)

    def condition_on(self, j: int) -> None:
        """Condition on a pending evaluation of point j: only the variance changes, as if the mean had been observed there."""
        covariance = self._kernel.gram(self._x, self._x[j : j + 1], self._inverse_lengthscales)[:, 0]
        covariance -= self._whitened_cross_cov.T @ self._whitened_cross_cov[:, j]
        for update in self._updates:
            covariance -= update[j] * update
        update = covariance / np.sqrt(max(self._variance[j], 0.0) + self._noise)
        self._updates.append(update)
        self._variance = self._variance - update**2
