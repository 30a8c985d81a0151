"""NoSE (Gatopoulos et al.): an evolutionary search whose children are screened by their nearest neighbours."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from autotvm_opevo._utils.validation import as_integer, is_number
from autotvm_opevo.search.base import Search
from autotvm_opevo.search.space import Configuration, Space

Array = np.ndarray[Any, np.dtype[np.float64]]

# Tries for each child to be a new one.
_TRIES = 20


class NoSE(Search):
    """Evolve a population, and evaluate only the children that the k nearest evaluated configurations speak for.

    A configuration is the vector of its vertices' numbers, as this package numbers them. Parents are drawn by the roulette
    wheel, children are made by single-point crossover and uniform mutation, and those of the highest estimate (`estimate`) are
    evaluated. The population is the best `population_size` of all that was evaluated: at first, that many random
    configurations. A child that is known is made again.

    Parameters
    ----------
    space : Space
        Any.
    population_size : int
        N.
    offspring_size : int, optional
        M: how many children are made in a generation; 1.5 N by default.
    elite_size : int, optional
        E: how many of them are evaluated; 0.3 N by default.
    mutation_rate : float
        p: the probability that a knob takes a random value.
    neighbours : int
        k: how many evaluated configurations an estimate looks at.
    seed : int, optional
        As for every `Search`.

    Raises
    ------
    ValueError
        If an argument is not what it should be.

    Examples
    --------
    >>> from autotvm_opevo.topology import Discrete
    >>> search = NoSE(Space({"x": Discrete(range(500)), "y": Discrete(range(500))}), seed=0)
    >>> len(search.ask(256))  # the population; then the elite of each generation
    100
    """

    _generational = True

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
            "offspring_size", round(1.5 * self.population_size) if offspring_size is None else offspring_size
        )
        self.elite_size = as_integer(
            "elite_size", max(1, round(0.3 * self.population_size)) if elite_size is None else elite_size
        )
        if not is_number(mutation_rate) or not 0 <= mutation_rate <= 1:
            raise ValueError(f"mutation_rate must be a probability, {mutation_rate!r} given")
        self.mutation_rate = float(mutation_rate)
        self.neighbours = as_integer("neighbours", neighbours)
        self._vectors: dict[int, list[float]] = {}

    def _generate(self) -> None:
        missing = self.population_size - len(self._fitness)
        if missing > 0 or not self._ranking:
            candidates, wanted = [], max(missing, self.elite_size) if self._fitness else self.population_size
        else:
            candidates, wanted = self._elite(), self.elite_size
        for number in [*candidates, *[None] * (wanted - len(candidates))]:
            if not self._enqueue(number):
                break

    def _elite(self) -> list[int]:
        """The children of the highest estimates, best first."""
        children = self._children()
        if not children:
            return []
        best = -self._ranking[0][0]  # a fitness may be as large as a float can be, and a sum of them is larger
        fitnesses = [fitness / best for fitness in self._fitness.values()]
        estimates = estimate(self._genes(children), self._genes(self._fitness), fitnesses, self.neighbours)
        return [children[i] for i in np.argsort(-estimates, kind="stable")[: self.elite_size]]

    def _children(self) -> list[int]:
        """New and allowed children, each once; fewer than `offspring_size` where hardly any are left."""
        population = self._ranking[: self.population_size]
        parents = [self.space[number] for _, number in population]
        wheel = np.cumsum([fitness / population[0][0] for fitness, _ in population])
        children: dict[int, None] = {}
        for _ in range(self.offspring_size):
            for _ in range(_TRIES):
                father, mother = np.searchsorted(wheel, self._rng.random(2) * wheel[-1], side="right").clip(max=len(parents) - 1)
                number = self._proposable(self._mutated(self._crossed(parents[father], parents[mother])))
                if number is not None and number not in children:
                    children[number] = None
                    break
        return list(children)

    def _crossed(self, father: Configuration, mother: Configuration) -> Configuration:
        """The father's knobs up to a random one, the mother's from there."""
        names = list(self.space.knobs)
        cut = int(self._rng.integers(1, len(names))) if len(names) > 1 else 0
        return {name: (father if position < cut else mother)[name] for position, name in enumerate(names)}

    def _mutated(self, child: Configuration) -> Configuration:
        return {
            name: knob.sample(self._rng) if self._rng.random() < self.mutation_rate else child[name]
            for name, knob in self.space.knobs.items()
        }

    def _genes(self, numbers: Iterable[int]) -> Array:
        """Configurations as rows of their vertices' numbers."""
        for number in numbers:
            if number not in self._vectors:
                configuration = self.space[number]
                self._vectors[number] = [float(knob.index(configuration[name])) for name, knob in self.space.knobs.items()]
        return np.array([self._vectors[number] for number in numbers])


def estimate(candidates: Array, evaluated: Array, fitnesses: Sequence[float], k: int) -> Array:
    """The weighted mean of the `k` nearest evaluated configurations (Equations 1 to 3).

    Parameters
    ----------
    candidates : array of float, shape (m, knobs)
    evaluated : array of float, shape (n, knobs)
        None of which is a candidate.
    fitnesses : sequence of float, length n
        Of the evaluated.
    k : int
        Fewer where fewer are evaluated.

    Returns
    -------
    array of float, shape (m,)
        Weights are one over the Canberra distance (Equation 4).

    Examples
    --------
    >>> estimate(np.array([[1.0]]), np.array([[3.0], [2.0], [9.0]]), [6.0, 3.0, 0.0], k=2).round(6).tolist()
    [4.2]
    """
    distances = cdist(candidates, evaluated, "canberra")
    nearest = np.argsort(distances, axis=1, kind="stable")[:, :k]
    weights = 1 / np.take_along_axis(distances, nearest, axis=1)
    means: Array = (weights * np.asarray(fitnesses)[nearest]).sum(axis=1) / weights.sum(axis=1)
    return means
