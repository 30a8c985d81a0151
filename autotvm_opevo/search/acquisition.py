"""Acquisition: which candidates to evaluate next, by expected improvement and probability of feasibility.

Feasible means here that a configuration builds and runs, which only a trial can tell (hidden constraints); configurations that a
`Space`'s constraint excludes are never candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from itertools import cycle, islice
from typing import Any

import numpy as np
from scipy.special import erfcx, ndtr, ndtri
from scipy.stats import rankdata
from threadpoolctl import ThreadpoolController

from autotvm_opevo.search.gp import GaussianProcess, GraphKernel, Posterior, prior_median
from autotvm_opevo.search.space import Space

Array = np.ndarray[Any, np.dtype[Any]]
Target = Callable[[Array], Array]
Criterion = Callable[[Array, Array, float], Array]

# Maximum number of training points, of results that hyperparameters are fitted to, and of pending evaluations conditioned on.
_MAX_TRAIN, _MAX_FIT, _MAX_PENDING = 400, 128, 256
# Hyperparameters are fitted again when the number of results has grown by this factor.
_REFIT_GROWTH = 1.25
# Lower bounds on the probability of feasibility, and on fitness relative to the best.
_MIN_PROB_FEASIBLE, _MIN_RELATIVE_FITNESS = 0.02, 1e-9


def log_fitness(fitness: Array) -> Array:
    """Logarithm of the fitness relative to the best: equal ratios become equal differences."""
    logarithms: Array = np.log(np.maximum(fitness / fitness.max(), _MIN_RELATIVE_FITNESS))
    return logarithms


def normal_scores(fitness: Array) -> Array:
    """Rank-based inverse normal transform: it separates close results and is robust to outliers.

    >>> normal_scores(np.array([3.0, 1.0, 2.0])).round(2).tolist()
    [0.97, -0.97, 0.0]
    """
    scores: Array = ndtri((rankdata(fitness) - 0.5) / len(fitness))
    return scores


def log_ei(mean: Array, stddev: Array, best_f: float) -> Array:
    """Logarithm of the expected improvement over `best_f` of normal variables, accurate even where the improvement underflows.

    log EI = log stddev + log h(z) with z = (mean - best_f) / stddev and h(z) = phi(z) + z Phi(z); below z = -1 in the form of
    Ament et al. (2023, Unexpected Improvements to Expected Improvement), phi(z) (1 - |z| Phi(z) / phi(z)), with the scaled
    complementary error function.

    >>> log_ei(np.array([0.0, -40.0]), np.array([1.0, 1.0]), 0.0).round(4).tolist()
    [-0.9189, -808.2986]
    """
    z = (mean - best_f) / stddev
    z_body, abs_z = np.maximum(z, -1.0), np.maximum(-z, 1.0)  # clamped, since both branches are evaluated
    body = np.log(np.exp(-(z_body**2) / 2) / np.sqrt(2 * np.pi) + z_body * ndtr(z_body))
    near = np.minimum(abs_z, 1e5)  # beyond, h(z) = phi(z) / z^2 to the last digit
    ratio = np.where(abs_z > near, -2 * np.log(abs_z), np.log1p(-np.sqrt(np.pi / 2) * near * erfcx(near / np.sqrt(2))))
    tail = -(abs_z**2) / 2 - np.log(2 * np.pi) / 2 + ratio
    log_h: Array = np.where(z > -1, body, tail)
    return np.log(stddev) + log_h


class Acquisition:
    """Selects candidates greedily, each conditioned on those before it.

    A candidate scores log EI + log P(feasible). EI alternates between two targets from one selected candidate to the next: the
    logarithm of the fitness, and its normal score. Both are outputs of one Gaussian process. A second one is fitted to 0
    for failures and 1 for successes, as in least-squares classification; its clipped mean is P(feasible).

    Parameters
    ----------
    space : Space
    rng : numpy.random.Generator
    kernel : GraphKernel, optional
        By default, ``GraphKernel(space)``.
    targets : sequence of callable
        Map fitnesses, shape (n,), to what is modelled; hyperparameters are fitted to the first.
    criterion : callable
        Takes the posterior's mean and standard deviation and the best target so far; higher is better.
    """

    def __init__(
        self,
        space: Space,
        rng: np.random.Generator,
        *,
        kernel: GraphKernel | None = None,
        targets: Sequence[Target] = (log_fitness, normal_scores),
        criterion: Criterion = log_ei,
    ) -> None:
        self._space = space
        self._kernel = GraphKernel(space) if kernel is None else kernel
        self._targets, self._criterion = targets, criterion
        self._next_output = cycle(range(len(targets)))
        self._train_x = self._encode([])
        self._objective = _Regression(self._kernel, len(space.knobs), rng)
        self._feasibility = _Regression(self._kernel, len(space.knobs), rng)

    def select(self, candidates: Sequence[int], results: Mapping[int, float], pending: Sequence[int], n: int) -> list[int]:
        """Up to `n` of the candidates, best first.

        Parameters
        ----------
        candidates : sequence of int
            Indices of configurations, all different, without results.
        results : mapping of int to float
            Fitness by index, 0 for failures, at least one of them positive. Between calls, entries may only be appended.
        pending : sequence of int
            Indices of configurations under evaluation.
        n : int
            Number of candidates to select at most.
        """
        if not candidates:
            return []
        # On matrices this small, more threads only wait for each other, above all while builders keep every core busy.
        with _blas().limit(limits=1, user_api="blas"):
            return self._select(candidates, results, pending[-_MAX_PENDING:], n)

    def _select(self, candidates: Sequence[int], results: Mapping[int, float], pending: Sequence[int], n: int) -> list[int]:
        fitness = np.array(list(results.values()))
        self._train_x = np.concatenate([self._train_x, self._encode(islice(results, len(self._train_x), None))])
        feasible = fitness > 0
        x = self._encode([*candidates, *pending])
        score = self._log_prob_feasible(feasible, x)
        train_y = np.stack([target(fitness[feasible]) for target in self._targets], axis=1)
        posterior = self._objective.posterior(self._train_x[feasible], train_y, fitness[feasible], x)
        best_f = train_y.max(axis=0)
        for j in range(len(candidates), len(x)):
            self._condition(posterior, j)
        score[len(candidates) :] = -np.inf
        selected: list[int] = []
        while len(selected) < min(n, len(candidates)):
            output = next(self._next_output)
            j = int(np.argmax(score + self._criterion(posterior.mean[:, output], posterior.stddev(output), best_f[output])))
            selected.append(candidates[j])
            score[j] = -np.inf
            self._condition(posterior, j)
        return selected

    def _log_prob_feasible(self, feasible: Array, x: Array) -> Array:
        if feasible.all():
            return np.zeros(len(x))
        labels = feasible.astype(float)
        posterior = self._feasibility.posterior(self._train_x, labels[:, None], labels, x)
        log_prob: Array = np.log(np.clip(posterior.mean[:, 0], _MIN_PROB_FEASIBLE, 1.0))
        return log_prob

    def _condition(self, posterior: Posterior, j: int) -> None:
        posterior.condition_on(j)

    def _encode(self, numbers: Iterable[int]) -> Array:
        return self._kernel.encode([self._space.vertices(number) for number in numbers])


class _Regression:
    """A Gaussian process on a subsample of the results, whose hyperparameters are refitted as results arrive."""

    def __init__(self, kernel: GraphKernel, knobs: int, rng: np.random.Generator) -> None:
        self._kernel, self._rng = kernel, rng
        self._hyperparameters, self._fitted_to = prior_median(knobs), 0

    def posterior(self, train_x: Array, train_y: Array, priority: Array, x: Array) -> Posterior:
        """Posterior at `x`; of many results, those of highest priority are used, and a random sample of the others."""
        subset, fit_subset = self._subsample(priority, _MAX_TRAIN), self._subsample(priority, _MAX_FIT)
        self._fit(train_x[fit_subset], train_y[fit_subset, 0], len(train_y))
        return GaussianProcess(self._kernel, train_x[subset], train_y[subset], self._hyperparameters).posterior(x)

    def _fit(self, x: Array, y: Array, results: int) -> None:
        if results >= _REFIT_GROWTH * self._fitted_to and np.ptp(y) > 1e-9:
            self._hyperparameters, self._fitted_to = self._kernel.fit(x, y, self._hyperparameters), results

    def _subsample(self, priority: Array, size: int) -> Array:
        """Indices of at most `size` results: all, or half of them the best and half drawn from the rest."""
        order = np.argsort(-priority, kind="stable")
        if len(order) <= size:
            return order
        rest = self._rng.choice(order[size // 2 :], size - size // 2, replace=False)
        return np.concatenate([order[: size // 2], rest])


@cache
def _blas() -> ThreadpoolController:
    """The BLAS libraries of numpy and scipy, found once: looking for them takes longer than a proposal."""
    return ThreadpoolController()
