"""Which of many candidates are worth an evaluation: those that a surrogate expects to improve most on the best."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle, islice
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri
from scipy.stats import rankdata

from autotvm_opevo.search.gp import Expectation, Kernel, Process, Rates, believed, learned
from autotvm_opevo.search.space import Space

Array = np.ndarray[Any, np.dtype[Any]]

# A process looks at so many results, and learns its rates from so many: half of them are the best, the others are drawn.
# Of what is pending, so many are looked at.
_LOOK, _LEARN, _PENDING = 400, 128, 256
# Rates are learned anew when there are so many times as many results.
_GROWTH = 1.25
# Nothing is taken for a certain failure, and no result for less than this part of the best.
_SUCCESS, _LEAST = 0.02, 1e-9


class Screening:
    """Chooses candidates by what a Gaussian process believes of them.

    A candidate's worth is its expected improvement times its chance of success. The improvement is expected in two ways, which
    take turns: of the logarithm of the fitness, and of its normal score, which knows only ranks: there what is close is spread,
    and nothing is far off. The chance of success is another process's, which sees failures as 0 and successes as 1.

    Parameters
    ----------
    space : Space
    rng : numpy.random.Generator
    """

    def __init__(self, space: Space, rng: np.random.Generator) -> None:
        self._space = space
        self._rng = rng
        self._kernel = Kernel(space)
        self._told = self._points([])
        self._rates: dict[str, Rates] = {}
        self._learned_from: dict[str, int] = {}
        self._kinds = cycle((0, 1))  # of values, as they take turns

    def choose(self, candidates: Sequence[int], results: Mapping[int, float], pending: Sequence[int], n: int) -> list[int]:
        """Up to `n` of the candidates, best first.

        Parameters
        ----------
        candidates : sequence of int
            Numbers of configurations, all different, none of which has a result.
        results : mapping of int to float
            The fitnesses of numbers; at least one is no failure.
        pending : sequence of int
            Numbers that will be evaluated anyhow; the last of many are looked at.
        n : int
        """
        if not candidates:
            return []
        fitness = np.array(list(results.values()))
        new = list(islice(results, len(self._told), None))  # results only ever become more
        told = self._told = np.concatenate([self._told, self._points(new)])
        worked = fitness > 0
        points = self._points([*candidates, *pending[-_PENDING:]])
        chance = self._chance(told, worked, points)
        expected, best = self._expected(told[worked], fitness[worked], points)
        for j in range(len(candidates), len(points)):
            expected.choose(j)
        chance[len(candidates) :] = -np.inf
        chosen: list[int] = []
        while len(chosen) < min(n, len(candidates)):
            kind = next(self._kinds)
            j = int(np.argmax(chance + self._improvement(expected, kind, best[kind])))
            chosen.append(candidates[j])
            chance[j] = -np.inf
            expected.choose(j)
        return chosen

    def _expected(self, points: Array, fitness: Array, candidates: Array) -> tuple[Expectation, Array]:
        """What is expected of candidates, and what the best has: of both values."""
        values = self._values(fitness)
        look = self._some(fitness, _LOOK)
        rates = self._learn("fitness", points, values[:, 0], self._some(fitness, _LEARN))
        return Process(self._kernel, points[look], values[look], rates).expect(candidates), values.max(axis=0)

    def _values(self, fitness: Array) -> Array:
        """The logarithm and the normal score, shape (results, 2)."""
        logarithms = np.log(np.maximum(fitness / fitness.max(), _LEAST))
        return np.stack([logarithms, ndtri((rankdata(fitness) - 0.5) / len(fitness))], axis=1)

    def _improvement(self, expected: Expectation, kind: int, best: float) -> Array:
        return log_improvement(expected.mean[:, kind], expected.deviation(kind), best)

    def _chance(self, points: Array, worked: Array, candidates: Array) -> Array:
        """The logarithm of the chance of success."""
        if worked.all():
            return np.zeros(len(candidates))
        labels = worked.astype(float)
        look = self._some(labels, _LOOK)
        rates = self._learn("success", points, labels, self._some(labels, _LEARN))
        process = Process(self._kernel, points[look], labels[look, None], rates)
        chances: Array = np.log(np.clip(process.expect(candidates).mean[:, 0], _SUCCESS, 1.0))
        return chances

    def _learn(self, what: str, points: Array, values: Array, which: Array) -> Rates:
        """The rates, learned anew where there is enough new to learn from."""
        rates = self._rates.setdefault(what, believed(len(self._space.knobs)))
        if len(values) >= _GROWTH * self._learned_from.get(what, 0) and np.ptp(values[which]) > 1e-9:
            self._learned_from[what] = len(values)
            rates = self._rates[what] = self._learned(points[which], values[which], rates)
        return rates

    def _learned(self, points: Array, values: Array, start: Rates) -> Rates:
        return learned(self._kernel.distances(points), values, start)

    def _some(self, values: Array, most: int) -> Array:
        """Which results to look at: all, or half of them the best and half of them others."""
        order = np.argsort(-values, kind="stable")
        if len(order) <= most:
            return order
        others = self._rng.choice(order[most // 2 :], most - most // 2, replace=False)
        return np.concatenate([order[: most // 2], others])

    def _points(self, numbers: Iterable[int]) -> Array:
        return self._kernel.points([self._space.vertices(number) for number in numbers])


def log_improvement(mean: Array, deviation: Array, best: float) -> Array:
    """The logarithm of the expected improvement of a normal variable on `best`.

    >>> log_improvement(np.array([0.0]), np.array([1.0]), 0.0).round(4).tolist()  # ln(1 / sqrt(2 pi))
    [-0.9189]
    """
    z = (mean - best) / deviation
    inside = np.clip(z, -30, 30)  # beyond, where the terms cancel or are too small, the leading term is exact enough
    improvement = np.log(np.exp(-(inside**2) / 2) / np.sqrt(2 * np.pi) + inside * ndtr(inside))
    below = np.where(z < inside, (inside**2 - z**2) / 2 - 2 * np.log(np.maximum(-z, 30) / 30), 0.0)
    above = np.where(z > inside, np.log(np.maximum(z, 30) / 30), 0.0)
    logarithms: Array = np.log(deviation) + improvement + below + above
    return logarithms
