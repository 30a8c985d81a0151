"""NoSE (Gatopoulos et al.): evolution that screens its offspring by k nearest neighbours."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from autotvm_opevo._utils.validation import as_integer, as_probability
from autotvm_opevo.search.base import Search
from autotvm_opevo.search.space import Configuration, Space

Array = np.ndarray[Any, np.dtype[np.float64]]

# Maximum number of attempts at a new child.
_MAX_ATTEMPTS = 20


class NoSE(Search):
    """Evolve a population, and evaluate only the offspring with the highest fitness predicted by k
    nearest neighbours.

    A configuration is encoded as the vector of its vertex indices. Parents are selected by roulette
    wheel, and recombined by single-point crossover and uniform mutation; duplicates are drawn
    again. The offspring with the highest predicted fitness (`knn_predict`) are evaluated. The
    population is the best `population_size` of all evaluated configurations; the first
    `population_size` are random.

    Parameters
    ----------
    space : Space
    population_size : int
        N.
    offspring_size : int, optional
        M, the number of children per generation; 1.5 N by default.
    elite_size : int, optional
        E, the number of children to evaluate per generation; 0.3 N by default.
    mutation_rate : float
        p, the probability that a knob takes a random value.
    neighbours : int
        k, the number of nearest neighbours in a prediction.
    seed : int, optional
        See `Search`.

    Raises
    ------
    ValueError
        If an argument is invalid.

    Examples
    --------
    >>> from autotvm_opevo.topology import Discrete
    >>> search = NoSE(Space({"x": Discrete(range(500)), "y": Discrete(range(500))}), seed=0)
    >>> len(search.ask(256))  # the population; then the elite of each generation
    100
    """

    generational = True

    def __init__(
        self,
        space: Space,
        population_size: int = 100,
        offspring_size: int | None = None,
        elite_size: int | None = None,
        mutation_rate: float = 0.3,
        neighbours: int = 9,
        seed: int | None = None,
    ) -> None:
        super().__init__(space, seed)
        self.population_size = as_integer("population_size", population_size)
        self.offspring_size = as_integer(
            "offspring_size",
            round(1.5 * self.population_size) if offspring_size is None else offspring_size,
        )
        self.elite_size = as_integer(
            "elite_size",
            max(1, round(0.3 * self.population_size)) if elite_size is None else elite_size,
        )
        self.mutation_rate = as_probability("mutation_rate", mutation_rate)
        self.neighbours = as_integer("neighbours", neighbours)

    def _propose(self, n: int) -> Iterator[int | None]:
        missing = self.population_size - len(self.results)
        if missing > 0 or not self._ranking:
            candidates = []
            count = max(missing, self.elite_size) if self.results else self.population_size
        else:
            candidates, count = self._elite(), self.elite_size
        yield from [*candidates, *[None] * (count - len(candidates))]

    def _elite(self) -> list[int]:
        """The offspring with the highest predicted fitness, best first."""
        offspring = self._offspring()
        if not offspring:
            return []
        # scaled by the best, a sum of the largest floats does not overflow
        best = -self._ranking[0][0]
        fitnesses = [fitness / best for fitness in self.results.values()]
        predictions = knn_predict(
            self._encode(offspring), self._encode(self.results), fitnesses, self.neighbours
        )
        return [offspring[i] for i in np.argsort(-predictions, kind="stable")[: self.elite_size]]

    def _offspring(self) -> list[int]:
        """Distinct new and feasible children; fewer than `offspring_size` if few are left."""
        population = self._ranking[: self.population_size]
        parents = [self.space[number] for _, number in population]
        wheel = np.cumsum([fitness / population[0][0] for fitness, _ in population])
        offspring: dict[int, None] = {}
        for _ in range(self.offspring_size):
            for _ in range(_MAX_ATTEMPTS):
                first, second = np.searchsorted(
                    wheel, self._rng.random(2) * wheel[-1], side="right"
                ).clip(max=len(parents) - 1)
                number = self._proposable(
                    self._mutate(self._crossover(parents[first], parents[second]))
                )
                if number is not None and number not in offspring:
                    offspring[number] = None
                    break
        return list(offspring)

    def _crossover(self, first: Configuration, second: Configuration) -> Configuration:
        """Single-point crossover: the first parent's knobs, from a random one on the second's."""
        names = list(self.space.knobs)
        cut = int(self._rng.integers(1, len(names))) if len(names) > 1 else 0
        return {
            name: (first if position < cut else second)[name] for position, name in enumerate(names)
        }

    def _mutate(self, child: Configuration) -> Configuration:
        """Uniform mutation."""
        return {
            name: knob.sample(self._rng) if self._rng.random() < self.mutation_rate else child[name]
            for name, knob in self.space.knobs.items()
        }

    def _encode(self, numbers: Iterable[int]) -> Array:
        """Configurations as rows of vertex indices, shape (configurations, knobs)."""
        return np.array([self.space.vertices(number) for number in numbers], dtype=float)


def knn_predict(candidates: Array, evaluated: Array, fitnesses: Sequence[float], k: int) -> Array:
    """Predict the fitness of candidates, shape (m, knobs), by the `k` nearest of others that were
    evaluated, shape (n, knobs), weighted by the inverse Canberra distance (Equations 1 to 4).

    >>> evaluated = np.array([[3.0], [2.0], [9.0]])
    >>> knn_predict(np.array([[1.0]]), evaluated, [6.0, 3.0, 0.0], k=2).round(6).tolist()
    [4.2]
    """
    distances = cdist(candidates, evaluated, "canberra")
    nearest = np.argsort(distances, axis=1, kind="stable")[:, :k]
    weights = 1 / np.take_along_axis(distances, nearest, axis=1)
    means: Array = (weights * np.asarray(fitnesses)[nearest]).sum(axis=1) / weights.sum(axis=1)
    return means
