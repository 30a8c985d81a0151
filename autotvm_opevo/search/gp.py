"""Gaussian process regression: hyperparameters by marginal likelihood and priors, and the posterior.

Notation
--------
n                    number of training points: evaluated configurations, or a subset of them
x, train_x           encoded points, shape (n, columns): the coordinates of all knobs, side by side
y, train_y           targets, shape (n,) or (n, outputs); the outputs share the kernel
a_i                  inverse lengthscale of knob i, per step; q_i = exp(-a_i) is the correlation per step
gram                 k(x, x), kernel between all training points, shape (n, n), exp(-sum_i a_i d_i)
noise                noise variance, as a fraction of the signal variance
mean                 means of the columns of y
factor               lower Cholesky factor of gram + noise I
alpha                (gram + noise I)^-1 (y - mean), shape (n, outputs)
variance, sigma^2    signal variance of an output, (y - mean)^T alpha / n: its maximum-likelihood estimate
whitened_cross_cov   factor^-1 k(train_x, x), shape (n, points)
"""

from __future__ import annotations

from collections.abc import Callable
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

    def gram(self, x1: Array, x2: Array, inverse_lengthscales: Array) -> Array:
        """k(x1, x2), shape (n1, n2)."""


class GaussianProcess:
    """A Gaussian process conditioned on results.

    Parameters
    ----------
    kernel : Kernel
    train_x : array of float, shape (n, columns)
        Encoded by the kernel.
    train_y : array of float, shape (n, outputs)
        One column per output; all share the kernel.
    hyperparameters : Hyperparameters
    """

    def __init__(self, kernel: Kernel, train_x: Array, train_y: Array, hyperparameters: Hyperparameters) -> None:
        self._kernel, self._train_x = kernel, train_x
        self._inverse_lengthscales = hyperparameters.inverse_lengthscales
        self._noise = hyperparameters.noise + JITTER
        gram = kernel.gram(train_x, train_x, self._inverse_lengthscales)
        self._factor = cholesky(gram + self._noise * np.eye(len(train_x)), lower=True)
        self._mean = train_y.mean(axis=0)
        self._alpha = cho_solve((self._factor, True), train_y - self._mean)
        self._sigma = np.sqrt(np.maximum(((train_y - self._mean) * self._alpha).mean(axis=0), 1e-24))

    def posterior(self, x: Array) -> Posterior:
        """Posterior at other points, shape (points, columns)."""
        cross = self._kernel.gram(self._train_x, x, self._inverse_lengthscales)
        return Posterior(
            self._mean + cross.T @ self._alpha,
            self._sigma,
            solve_triangular(self._factor, cross, lower=True),
            lambda j: self._kernel.gram(x, x[j : j + 1], self._inverse_lengthscales)[:, 0],
            self._noise,
        )


class Posterior:
    """Posterior at some points, which can be conditioned on pending evaluations, one after the other.

    Attributes
    ----------
    mean : array of float, shape (points, outputs)
    """

    def __init__(
        self, mean: Array, sigma: Array, whitened_cross_cov: Array, covariance_with: Callable[[int], Array], noise: float
    ) -> None:
        self.mean = mean
        self._sigma, self._whitened_cross_cov, self._covariance_with, self._noise = (
            sigma,
            whitened_cross_cov,
            covariance_with,
            noise,
        )
        self._variance = 1 - (whitened_cross_cov**2).sum(axis=0)  # without noise, as a fraction of the signal variance
        self._updates: list[Array] = []  # rows u; each subtracts u u^T from the posterior covariance

    def stddev(self, output: int) -> Array:
        """Posterior standard deviation of one output, shape (points,)."""
        stddev: Array = self._sigma[output] * np.sqrt(np.maximum(self._variance, 1e-12))
        return stddev

    def condition_on(self, j: int) -> None:
        """Condition on a pending evaluation of point j: only the variance changes, as if the mean had been observed there."""
        covariance = self._covariance_with(j) - self._whitened_cross_cov.T @ self._whitened_cross_cov[:, j]
        for update in self._updates:
            covariance -= update[j] * update
        update = covariance / np.sqrt(max(self._variance[j], 0.0) + self._noise)
        self._updates.append(update)
        self._variance = self._variance - update**2
