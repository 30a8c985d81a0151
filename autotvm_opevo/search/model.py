"""The surrogate model of a task: what is expected of a configuration, and whether it is feasible.

Feasible means here that a configuration builds and runs, which only a trial can tell (hidden constraints); configurations that a
`Space`'s constraint excludes are never candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri
from scipy.stats import rankdata

from autotvm_opevo.search.gp import GaussianProcess, Posterior, prior_median
from autotvm_opevo.search.kernel import GraphKernel
from autotvm_opevo.search.space import Space

Array = np.ndarray[Any, np.dtype[Any]]
Target = Callable[[Array], Array]

# Maximum number of training points, and of results that hyperparameters are fitted to.
_MAX_TRAIN, _MAX_FIT = 400, 128
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


class Prediction(NamedTuple):
    """What a model expects of some configurations.

    Attributes
    ----------
    posterior : Posterior
        Of the targets.
    log_prob_feasible : array of float, shape (points,)
    best_f : array of float, shape (outputs,)
        The best target so far.
    """

    posterior: Posterior
    log_prob_feasible: Array
    best_f: Array


class Model:
    """Two Gaussian processes: one of the targets, one of the feasibility.

    The targets are the outputs of one process. The other is fitted to 0 for failures and 1 for successes, as in least-squares
    classification; its clipped mean is P(feasible).

    Parameters
    ----------
    space : Space
    rng : numpy.random.Generator
    kernel : GraphKernel, optional
        By default, ``GraphKernel(space)``.
    targets : sequence of callable
        Map fitnesses, shape (n,), to what is modelled; hyperparameters are fitted to the first.
    min_results : int
        Number of results below which the model is not used.
    """

    def __init__(
        self,
        space: Space,
        rng: np.random.Generator,
        *,
        kernel: GraphKernel | None = None,
        targets: Sequence[Target] = (log_fitness, normal_scores),
        min_results: int = 1,
    ) -> None:
        self.min_results = min_results
        self._space, self._targets = space, targets
        self._kernel = GraphKernel(space) if kernel is None else kernel
        self._train_x = self._encode([])
        self._objective, self._feasibility = Regression(self._kernel, rng), Regression(self._kernel, rng)

    def predict(self, results: Mapping[int, float], numbers: Sequence[int]) -> Prediction:
        """What is expected of configurations.

        Parameters
        ----------
        results : mapping of int to float
            Fitness by index, 0 for failures, at least one of them positive. Between calls, entries may only be appended.
        numbers : sequence of int
            Indices of configurations.
        """
        train_x, fitness = self._training_set(results)
        feasible = fitness > 0
        x = self._encode(numbers)
        log_prob_feasible = self._log_prob_feasible(train_x, feasible, len(results), x)
        train_y = np.stack([target(fitness[feasible]) for target in self._targets], axis=1)
        own = int(feasible[: len(results)].sum())
        posterior = self._objective.posterior(train_x[feasible], train_y, fitness[feasible], own, x)
        best = train_y[:own] if own else posterior.mean
        return Prediction(posterior, log_prob_feasible, best.max(axis=0))

    def _training_set(self, results: Mapping[int, float]) -> tuple[Array, Array]:
        """Encoded configurations and their fitness; those of `results` come first."""
        self._train_x = np.concatenate([self._train_x, self._encode(islice(results, len(self._train_x), None))])
        return self._train_x, np.array(list(results.values()))

    def _log_prob_feasible(self, train_x: Array, feasible: Array, own: int, x: Array) -> Array:
        if feasible.all():
            return np.zeros(len(x))
        labels = feasible.astype(float)
        posterior = self._feasibility.posterior(train_x, labels[:, None], labels, own, x)
        log_prob: Array = np.log(np.clip(posterior.mean[:, 0], _MIN_PROB_FEASIBLE, 1.0))
        return log_prob

    def _encode(self, numbers: Iterable[int]) -> Array:
        return self._kernel.encode([self._space.vertices(number) for number in numbers])


class Regression:
    """A Gaussian process on a subsample of the results, whose hyperparameters are refitted as results arrive.

    Attributes
    ----------
    hyperparameters : Hyperparameters
        Fitted last.
    """

    def __init__(self, kernel: GraphKernel, rng: np.random.Generator) -> None:
        self._kernel, self._rng = kernel, rng
        self.hyperparameters, self._fitted_to = prior_median(kernel.size), -1

    def posterior(self, train_x: Array, train_y: Array, priority: Array, own: int, x: Array) -> Posterior:
        """Posterior at `x`; of many results, those of highest priority are used, and a random sample of the others.

        `own` is the number of results of the task that is tuned.
        """
        subset, fit_subset = self._subsample(priority, _MAX_TRAIN), self._subsample(priority, _MAX_FIT)
        self._fit(train_x[fit_subset], train_y[fit_subset, 0], own)
        return GaussianProcess(self._kernel, train_x[subset], train_y[subset], self.hyperparameters).posterior(x)

    def _fit(self, x: Array, y: Array, own: int) -> None:
        if own > self._fitted_to and own >= _REFIT_GROWTH * self._fitted_to and np.ptp(y) > 1e-9:
            self.hyperparameters = self._kernel.fit(x, y, self.hyperparameters)
            self._fitted_to = own

    def _subsample(self, priority: Array, size: int) -> Array:
        """Indices of at most `size` results: all, or half of them the best and half drawn from the rest."""
        order = np.argsort(-priority, kind="stable")
        if len(order) <= size:
            return order
        rest = self._rng.choice(order[size // 2 :], size - size // 2, replace=False)
        return np.concatenate([order[: size // 2], rest])
