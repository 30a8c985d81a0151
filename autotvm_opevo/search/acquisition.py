"""Acquisition: which candidates to evaluate next, by expected improvement and probability of
feasibility.

Feasible means here that a configuration builds and runs, which only a trial can tell (hidden
constraints); configurations that a `Space`'s constraint excludes are never candidates.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import chain, islice
from typing import Any, NamedTuple

import numpy as np
from scipy.special import erfcx, ndtr, ndtri
from threadpoolctl import ThreadpoolController

from autotvm_opevo.search.gp import GaussianProcess, GraphKernel, Posterior
from autotvm_opevo.search.space import Space

Array = np.ndarray[Any, np.dtype[Any]]

# Maximum number of pending evaluations conditioned on.
_MAX_PENDING = 256
# Lower bounds on the probability of feasibility, and on fitness relative to the best.
_MIN_PROB_FEASIBLE, _MIN_RELATIVE_FITNESS = 0.02, 1e-9


def log_fitness(fitness: Array) -> Array:
    """Logarithm of the fitness relative to the best, by which equal ratios become equal
    differences; NaN for failures.

    >>> log_fitness(np.array([1.0, 0.0, 4.0])).round(2).tolist()
    [-1.39, nan, 0.0]
    """
    best = fitness.max(initial=0.0) or 1.0
    targets: Array = np.where(
        fitness > 0, np.log(np.maximum(fitness / best, _MIN_RELATIVE_FITNESS)), np.nan
    )
    return targets


def normal_scores(values: Array) -> Array:
    """Rank-based inverse normal transform: it separates close results and is robust to outliers.

    >>> normal_scores(np.array([3.0, 1.0, 2.0])).round(2).tolist()
    [0.97, -0.97, 0.0]
    """
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    # equal values share the mean of their ranks; scipy.stats has this, but takes long to import
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    scores: Array = ndtri((ranks - 0.5) / len(values))
    return scores


def log_ei(mean: Array, stddev: Array, best_f: float) -> Array:
    """Logarithm of the expected improvement over `best_f` of normal variables, accurate even where
    the improvement underflows.

    log EI = log stddev + log h(z) with z = (mean - best_f) / stddev and h(z) = phi(z) + z Phi(z);
    below z = -1 in the form of Ament et al. (2023, Unexpected Improvements to Expected
    Improvement), phi(z) (1 - |z| Phi(z) / phi(z)), with the scaled complementary error function.

    >>> log_ei(np.array([0.0, -40.0]), np.array([1.0, 1.0]), 0.0).round(4).tolist()
    [-0.9189, -808.2986]
    """
    z = (mean - best_f) / stddev
    # clamped, since both branches are evaluated
    z_body, abs_z = np.maximum(z, -1.0), np.maximum(-z, 1.0)
    body = np.log(np.exp(-(z_body**2) / 2) / np.sqrt(2 * np.pi) + z_body * ndtr(z_body))
    near = np.minimum(abs_z, 1e5)  # beyond, h(z) = phi(z) / z^2 to the last digit
    ratio = np.where(
        abs_z > near,
        -2 * np.log(abs_z),
        np.log1p(-np.sqrt(np.pi / 2) * near * erfcx(near / np.sqrt(2))),
    )
    tail = -(abs_z**2) / 2 - np.log(2 * np.pi) / 2 + ratio
    log_h: Array = np.where(z > -1, body, tail)
    return np.log(stddev) + log_h


class Prediction(NamedTuple):
    """What a model expects of some configurations."""

    posterior: Posterior  # of the targets
    log_prob_feasible: Array  # shape (points,)
    best_f: Array  # the best so far, shape (targets,)


class Model:
    """Two Gaussian processes: one of the targets, one of the feasibility.

    The targets are the log fitness and its normal score. The other process is fitted to 0 for
    failures and 1 for successes, as in least-squares classification; its clipped mean is
    P(feasible). With fewer than `min_results` results, the model is not used.
    """

    def __init__(
        self,
        space: Space,
        rng: np.random.Generator,
        kernel: GraphKernel | None = None,
        min_results: int = 1,
    ) -> None:
        self.min_results = min_results
        self._space, self._kernel = space, GraphKernel(space) if kernel is None else kernel
        self._train_x = self._encode([])
        self._objective = GaussianProcess(self._kernel, rng)
        self._feasibility = GaussianProcess(self._kernel, rng)

    def predict(self, results: Mapping[int, float], numbers: Sequence[int]) -> Prediction:
        """What is expected of configurations, given their indices, and fitness by index, 0 for
        failures, at least one of it positive. Between calls, keys may only be appended.
        """
        train_x, log_f = self._training_set(results)
        feasible, x = ~np.isnan(log_f), self._encode(numbers)
        log_prob_feasible = np.zeros(len(x))
        if not feasible.all():
            mean = self._feasibility.posterior(
                train_x, feasible[:, None].astype(float), len(results), x
            ).mean
            log_prob_feasible = np.log(np.clip(mean[:, 0], _MIN_PROB_FEASIBLE, 1.0))
        own, train_y = int(feasible[: len(results)].sum()), self.targets(log_f[feasible])
        posterior = self._objective.posterior(train_x[feasible], train_y, own, x)
        return Prediction(
            posterior, log_prob_feasible, (train_y[:own] if own else posterior.mean).max(axis=0)
        )

    def targets(self, log_f: Array) -> Array:
        """Targets of successes, shape (n, targets); hyperparameters are fitted to the first."""
        return np.stack([log_f, normal_scores(log_f)], axis=1)

    def _training_set(self, results: Mapping[int, float]) -> tuple[Array, Array]:
        """Encoded configurations, those of `results` first, and log fitness, NaN for failures."""
        self._train_x = np.concatenate(
            [self._train_x, self._encode(islice(results, len(self._train_x), None))]
        )
        return self._train_x, log_fitness(np.array(list(results.values())))

    def _encode(self, numbers: Iterable[int]) -> Array:
        return self._kernel.encode([self._space.vertices(number) for number in numbers])


class Acquisition:
    """Selects candidates greedily, each conditioned on those before it.

    From one selected candidate to the next, models take turns, and so do their targets.
    """

    def __init__(self, models: Sequence[Model]) -> None:
        self._models = models
        self._turn = 0

    def select(
        self,
        pools: Sequence[Sequence[int]],
        results: Mapping[int, float],
        pending: Sequence[int],
        n: int,
    ) -> list[int]:
        """Up to `n` candidates, in the order of selection.

        Parameters
        ----------
        pools : sequence of sequence of int
            Indices of candidates, without results. The pools take turns, and may overlap; the first
            one has those of empty ones.
        results : mapping of int to float
            Fitness by index, 0 for failures; without a positive one, or with fewer than a model
            needs, none is selected, unless a model can do without results. Between calls, keys may
            only be appended.
        pending : sequence of int
            Indices of configurations under evaluation.
        n : int
            Number of candidates to select at most.
        """
        if not any(pools):
            return []
        # On matrices this small, more threads only wait for each other, above all while builders
        # keep every core busy.
        with _blas().limit(limits=1, user_api="blas"):
            candidates = list(dict.fromkeys(chain(*pools)))
            pending = pending[-_MAX_PENDING:]
            succeeded = any(results.values())
            models = [
                m
                for m in self._models
                if m.min_results == 0 or (succeeded and len(results) >= m.min_results)
            ]
            if not models:
                return []
            predictions = [model.predict(results, [*candidates, *pending]) for model in models]
            for j in range(len(candidates), len(candidates) + len(pending)):
                self.condition_on(predictions, j)
            position = {number: j for j, number in enumerate(candidates)}
            open_ = [
                np.isin(np.arange(len(candidates) + len(pending)), [position[c] for c in pool])
                for pool in pools
            ]
            selected: list[int] = []
            while len(selected) < min(n, len(candidates)):
                prediction = predictions[self._turn % len(predictions)]
                target = self._turn // len(predictions) % len(prediction.best_f)
                score = self.score(prediction, target)
                eligible = next(
                    pool for pool in (open_[self._turn % len(open_)], *open_) if pool.any()
                )
                self._turn += 1
                j = int(np.argmax(np.where(eligible, score, -np.inf)))
                selected.append(candidates[j])
                for pool in open_:
                    pool[j] = False
                self.condition_on(predictions, j)
            return selected

    def score(self, prediction: Prediction, target: int) -> Array:
        """Acquisition value of each point: log EI of a target + log P(feasible)."""
        posterior, log_prob_feasible, best_f = prediction
        return log_prob_feasible + log_ei(
            posterior.mean[:, target], posterior.stddev[:, target], best_f[target]
        )

    def condition_on(self, predictions: Sequence[Prediction], j: int) -> None:
        """Take point j for an evaluation that is pending."""
        for prediction in predictions:
            prediction.posterior.condition_on(j)


@cache
def _blas() -> ThreadpoolController:
    """The BLAS libraries, found once: looking for them takes longer than a proposal."""
    return ThreadpoolController()
