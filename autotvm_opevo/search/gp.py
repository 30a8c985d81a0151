"""Gaussian process regression: the posterior.

Notation
--------
n                    number of training points: evaluated configurations, or a subset of them
x, train_x           encoded points, shape (n, columns): the coordinates of all knobs, side by side
y, train_y           targets, shape (n, outputs); the outputs share the kernel
mean                 means of the columns of y
gram                 k(x, x), shape (n, n)
noise                noise variance, as a fraction of the signal variance
factor               lower Cholesky factor of gram + noise I
alpha                (gram + noise I)^-1 (y - mean), shape (n, outputs)
variance, sigma^2    signal variance of an output, (y - mean)^T alpha / n: its maximum-likelihood estimate
whitened_cross_cov   factor^-1 k(train_x, x), shape (n, points)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import cho_solve, cholesky, solve_triangular

from autotvm_opevo.search.hyperparameters import JITTER, Hyperparameters
from autotvm_opevo.search.kernel import GraphKernel

Array = np.ndarray[Any, np.dtype[np.float64]]


class GaussianProcess:
    """A Gaussian process conditioned on results.

    Parameters
    ----------
    kernel : GraphKernel
    train_x : array of float, shape (n, columns)
        Encoded by the kernel.
    train_y : array of float, shape (n, outputs)
        One column per output; all share the kernel.
    hyperparameters : Hyperparameters
    """

    def __init__(self, kernel: GraphKernel, train_x: Array, train_y: Array, hyperparameters: Hyperparameters) -> None:
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
