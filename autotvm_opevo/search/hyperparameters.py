"""Hyperparameters of the Gaussian process: marginal likelihood, priors, and the maximum a posteriori.

Notation
--------
n                    number of training points
y                    targets, shape (n,)
a_i                  inverse lengthscale of knob i, per step; q_i = exp(-a_i) is the correlation per step
gram                 kernel between all training points, shape (n, n), exp(-sum_i a_i d_i)
noise                noise variance, as a fraction of the signal variance
factor               lower Cholesky factor of gram + noise I
alpha                (gram + noise I)^-1 y
variance             signal variance, y^T alpha / n: its maximum-likelihood estimate
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import cho_solve, cholesky
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
        `kernel.GraphKernel.pairwise_distances` of the training points.
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
