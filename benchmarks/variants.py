"""Variants of OpEvo for the ablation: one part of the Gaussian-process search replaced by another,
or left out.

`SEARCHES` has them by name, `TUNERS` has them as AutoTVM tuners.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from scipy.linalg import eigh
from scipy.optimize import minimize
from tvm.autotvm.task import Task
from tvm.autotvm.tuner import Tuner

from autotvm_opevo import OpEvo, Space, random_walk
from autotvm_opevo.autotvm import OpEvoTuner
from autotvm_opevo.autotvm.tuner import SearchTuner
from autotvm_opevo.search.acquisition import Acquisition, Model, Prediction, normal_scores
from autotvm_opevo.search.gp import (
    GraphKernel,
    Hyperparameters,
    fit_hyperparameters,
    log_bounds,
    neg_log_marginal_likelihood,
    neg_log_prior,
    prior_median,
)
from autotvm_opevo.search.opevo import Parents
from autotvm_opevo.topology import Topology

Array = np.ndarray[Any, np.dtype[Any]]

# --- kernels


class FixedHyperparameters(GraphKernel):
    """Hyperparameters stay at the prior's medians."""

    def fit(self, x: Array, y: Array, start: Hyperparameters) -> Hyperparameters:
        return start


class IsotropicKernel(GraphKernel):
    """All knobs share one lengthscale."""

    def fit(self, x: Array, y: Array, start: Hyperparameters) -> Hyperparameters:
        distances = self.pairwise_distances(x).sum(axis=0, keepdims=True)
        found = fit_hyperparameters(
            distances, y, Hyperparameters(start.inverse_lengthscales[:1], start.noise)
        )
        return Hyperparameters(
            np.repeat(found.inverse_lengthscales, len(start.inverse_lengthscales)), found.noise
        )


class WithoutLogSums(GraphKernel):
    """Knobs alone: no products of parts of several tiles."""

    @staticmethod
    def groups(parts: Sequence[int]) -> list[list[int]]:
        return []


class CategoricalKernel(WithoutLogSums):
    """All values of a knob are equally far apart: no graph."""

    def encode(self, configurations: Any) -> Array:
        return np.array(list(configurations), dtype=float).reshape(-1, self.size)

    def pairwise_distances(self, x: Array) -> Array:
        return np.array([column[:, None] != column for column in x.T], dtype=float)

    def gram(self, x1: Array, x2: Array, inverse_lengthscales: Array) -> Array:
        return np.exp(-np.tensordot(inverse_lengthscales, x1.T[:, :, None] != x2.T[:, None, :], 1))


class RegularizedLaplacianKernel(CategoricalKernel):
    """The walk's stopping distribution made symmetric (Smola and Kondor 2003).

    (I - q N)^-1 with N = D^-1/2 A D^-1/2, scaled to a unit diagonal.

    The gradient of its likelihood is taken by finite differences.
    """

    def __init__(self, space: Space) -> None:
        super().__init__(space)
        self._spectra = [_spectrum(topology) for topology in space.knobs.values()]

    def gram(self, x1: Array, x2: Array, inverse_lengthscales: Array) -> Array:
        product = np.ones((len(x1), len(x2)))
        for (values, vectors), a, i, j in zip(
            self._spectra, inverse_lengthscales, x1.T.astype(int), x2.T.astype(int)
        ):
            stopping = (vectors / (1 - np.exp(-a) * values)) @ vectors.T
            scale = np.sqrt(np.diag(stopping))
            product *= (stopping / np.outer(scale, scale))[np.ix_(i, j)]
        return product

    def fit(self, x: Array, y: Array, start: Hyperparameters) -> Hyperparameters:
        y = (y - y.mean()) / y.std()

        def neg_log_posterior(log_hyperparameters: Array) -> float:
            *inverse_lengthscales, noise = np.exp(log_hyperparameters)
            likelihood, _ = neg_log_marginal_likelihood(
                self.gram(x, x, np.array(inverse_lengthscales)), noise, y
            )
            return likelihood + neg_log_prior(log_hyperparameters)[0]

        begin = np.log([*start.inverse_lengthscales, start.noise])
        bounds = log_bounds(len(start.inverse_lengthscales))
        found = minimize(
            neg_log_posterior, begin, method="L-BFGS-B", bounds=bounds, options={"maxiter": 20}
        )
        *inverse_lengthscales, noise = np.exp(found.x)
        return Hyperparameters(np.array(inverse_lengthscales), noise)


def _spectrum(topology: Topology) -> tuple[Array, Array]:
    steps = random_walk.transition_matrix(topology, 0.5).toarray()
    values, vectors = eigh(np.sqrt(steps * steps.T) / 0.5)
    return values, vectors


# --- targets, criteria and batches


class LogTarget(Model):
    """The log fitness alone."""

    def targets(self, log_f: Array) -> Array:
        return log_f[:, None]


class RankTarget(Model):
    """The normal score alone."""

    def targets(self, log_f: Array) -> Array:
        return normal_scores(log_f)[:, None]


class LogAndRelativeTargets(Model):
    """Fitness relative to the best instead of the normal score."""

    def targets(self, log_f: Array) -> Array:
        return np.stack([log_f, np.exp(log_f)], axis=1)


class IgnoreFailures(Acquisition):
    """Every candidate counts as feasible."""

    def score(self, prediction: Prediction, target: int) -> Array:
        return super().score(prediction, target) - prediction.log_prob_feasible


class PosteriorMean(Acquisition):
    """Exploitation only."""

    def score(self, prediction: Prediction, target: int) -> Array:
        return prediction.log_prob_feasible + prediction.posterior.mean[:, target]


class UCB(PosteriorMean):
    """Upper confidence bound, two standard deviations above the mean."""

    def score(self, prediction: Prediction, target: int) -> Array:
        return super().score(prediction, target) + 2 * prediction.posterior.stddev[:, target]


class TopK(Acquisition):
    """A batch is the best candidates one by one, not conditioned on each other nor on what is
    pending.
    """

    def condition_on(self, predictions: Sequence[Prediction], j: int) -> None:
        pass


def _search(
    kernel: type[GraphKernel] = GraphKernel,
    model: type[Model] = Model,
    acquisition: type[Acquisition] = Acquisition,
) -> type[OpEvo]:
    class Variant(OpEvo):
        def make_acquisition(self) -> Acquisition:
            return acquisition([model(self.space, self._rng, kernel(self.space))])

    return Variant


# --- candidates and initial designs


class FewCandidates(OpEvo):
    """200 children in spaces of any size, and nothing near the parents."""

    max_children = 200


class RandomCandidates(OpEvo):
    """Candidates are 200 random configurations instead of children."""

    def _candidates(self, parents: Parents, portfolio: Sequence[int] = ()) -> list[int]:
        return self._random(200)


class OnlyChildren(OpEvo):
    """Neither neighbours of the best nor random configurations, however long it stands still."""

    patience = sys.maxsize


class AlsoRandomCandidates(OpEvo):
    """Candidates are children and 200 random configurations."""

    def _candidates(self, parents: Parents, portfolio: Sequence[int] = ()) -> list[int]:
        return list(dict.fromkeys([*super()._candidates(parents, portfolio), *self._random(200)]))


class AlsoNeighbours(OpEvo):
    """Candidates are children and all neighbours of the best three."""

    def _candidates(self, parents: Parents, portfolio: Sequence[int] = ()) -> list[int]:
        neighbours = [
            self.space.number([*vertices[:i], step, *vertices[i + 1 :]])
            for vertices, _ in parents[:3]
            for i, graph in enumerate(self._graphs)
            for step in graph.neighbours(vertices[i])
        ]
        return list(
            dict.fromkeys(
                [*super()._candidates(parents, portfolio), *filter(self._is_proposable, neighbours)]
            )
        )


class CornersFirst(OpEvo):
    """The first two configurations have all knobs at their first values, and all at their last."""

    def _propose(self, n: int) -> Iterator[int | None]:
        corners = [] if self._known else [*dict.fromkeys((0, self.space.size - 1))]
        yield from [*filter(self._is_proposable, corners)] or super()._propose(n)


class MaximinInit(OpEvo):
    """Configurations drawn before the first success maximise the minimal kernel distance to those
    before.
    """

    def _draw(self) -> int | None:
        if self._known and not self._ranking:
            drawn = dict.fromkeys(
                self.space.index(self.space.sample(self._rng)) for _ in range(200)
            )
            candidates = [candidate for candidate in drawn if self._is_proposable(candidate)]
            if candidates:
                return candidates[int(np.argmin(self._max_correlation(candidates)))]
        return super()._draw()

    def _max_correlation(self, candidates: list[int]) -> Array:
        kernel = GraphKernel(self.space)
        x, known = (
            kernel.encode(map(self.space.vertices, numbers))
            for numbers in (candidates, self._known)
        )
        return kernel.gram(x, known, prior_median(kernel.size).inverse_lengthscales).max(axis=1)


class SixteenInitial(OpEvo):
    """16 random configurations first instead of 8."""

    def _propose(self, n: int) -> Iterator[int | None]:
        if len(self._known) < 16:
            yield from [None] * (16 - len(self._known))
        else:
            yield from super()._propose(n)


KERNELS = (
    WithoutLogSums,
    RegularizedLaplacianKernel,
    CategoricalKernel,
    IsotropicKernel,
    FixedHyperparameters,
)
SUBCLASSES = (
    OnlyChildren,
    FewCandidates,
    RandomCandidates,
    AlsoRandomCandidates,
    AlsoNeighbours,
    CornersFirst,
    MaximinInit,
    SixteenInitial,
)
SEARCHES: dict[str, type[OpEvo]] = {
    **{kernel.__name__: _search(kernel=kernel) for kernel in KERNELS},
    **{
        model.__name__: _search(model=model)
        for model in (LogTarget, RankTarget, LogAndRelativeTargets)
    },
    "IgnoreFailures": _search(acquisition=IgnoreFailures),
    "UCB": _search(model=LogTarget, acquisition=UCB),
    "PosteriorMean": _search(model=LogTarget, acquisition=PosteriorMean),
    "TopK": _search(acquisition=TopK),
    **{search.__name__: search for search in SUBCLASSES},
}


class WholeBatches(OpEvoTuner):
    """Batches are as large as asked for from the first one on."""

    def batch_size(self, most: int) -> int:
        return most


class HalfBatches(OpEvoTuner):
    """Batches grow twice as fast: half as many as there are results."""

    def batch_size(self, most: int) -> int:
        return min(most, max(8, len(self._search.results) // 2))


def _tuner(search: type[OpEvo], task: Task, seed: int, **options: Any) -> Tuner:
    return SearchTuner(task, lambda space: search(space, seed=seed, **options))


TUNERS: dict[str, Callable[..., Tuner]] = {
    **{name: partial(_tuner, search) for name, search in SEARCHES.items()},
    "WholeBatches": WholeBatches,
    "HalfBatches": HalfBatches,
}
