"""Acquisition: which candidates to evaluate next, by expected improvement and probability of feasibility."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import chain
from typing import Any

import numpy as np
from scipy.special import erfcx, ndtr
from threadpoolctl import ThreadpoolController

from autotvm_opevo.search.model import Model, Prediction

Array = np.ndarray[Any, np.dtype[Any]]
Criterion = Callable[[Array, Array, float], Array]

# Maximum number of pending evaluations conditioned on.
_MAX_PENDING = 256


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

    A candidate scores log EI + log P(feasible). From one selected candidate to the next, EI takes turns between the models and
    their targets: by default, the logarithm of the fitness, and its normal score.

    Parameters
    ----------
    models : sequence of Model
        All with the same number of targets. Usually one.
    criterion : callable
        Takes the posterior's mean and standard deviation and the best target so far; higher is better.
    """

    def __init__(self, models: Sequence[Model], criterion: Criterion = log_ei) -> None:
        self._models, self._criterion = models, criterion
        self._turn = 0

    def select(self, pools: Sequence[Sequence[int]], results: Mapping[int, float], pending: Sequence[int], n: int) -> list[int]:
        """Up to `n` candidates, in the order of selection.

        Parameters
        ----------
        pools : sequence of sequence of int
            Indices of candidates, without results. The pools take turns, and may overlap; the first one has those of empty ones.
        results : mapping of int to float
            Fitness by index, 0 for failures; without a positive one, or with fewer than a model needs, none is selected, unless a
            model can do without results. Between calls, entries may only be appended.
        pending : sequence of int
            Indices of configurations under evaluation.
        n : int
            Number of candidates to select at most.
        """
        if not any(pools):
            return []
        # On matrices this small, more threads only wait for each other, above all while builders keep every core busy.
        with _blas().limit(limits=1, user_api="blas"):
            return self._select(pools, results, pending[-_MAX_PENDING:], n)

    def _select(self, pools: Sequence[Sequence[int]], results: Mapping[int, float], pending: Sequence[int], n: int) -> list[int]:
        candidates = list(dict.fromkeys(chain(*pools)))
        succeeded = any(results.values())
        models = [m for m in self._models if m.min_results == 0 or (succeeded and len(results) >= m.min_results)]
        if not models:
            return []
        predictions = [model.predict(results, [*candidates, *pending]) for model in models]
        for j in range(len(candidates), len(candidates) + len(pending)):
            self._condition(predictions, j)
        position = {number: j for j, number in enumerate(candidates)}
        open_ = [np.isin(np.arange(len(candidates) + len(pending)), [position[c] for c in pool]) for pool in pools]
        selected: list[int] = []
        while len(selected) < min(n, len(candidates)):
            posterior, log_prob_feasible, best_f = predictions[self._turn % len(predictions)]
            output = self._turn // len(predictions) % len(best_f)
            eligible = next(pool for pool in (open_[self._turn % len(open_)], *open_) if pool.any())
            self._turn += 1
            score = log_prob_feasible + self._criterion(posterior.mean[:, output], posterior.stddev(output), best_f[output])
            j = int(np.argmax(np.where(eligible, score, -np.inf)))
            selected.append(candidates[j])
            for pool in open_:
                pool[j] = False
            self._condition(predictions, j)
        return selected

    def _condition(self, predictions: Sequence[Prediction], j: int) -> None:
        for prediction in predictions:
            prediction.posterior.condition_on(j)


@cache
def _blas() -> ThreadpoolController:
    """The BLAS libraries of numpy and scipy, found once: looking for them takes longer than a proposal."""
    return ThreadpoolController()
