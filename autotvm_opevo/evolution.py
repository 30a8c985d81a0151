"""OpEvo (Algorithm 1): evolution whose mutations are q-random walks, as a search that is asked and told."""

from __future__ import annotations

import sys
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from autotvm_opevo import random_walk
from autotvm_opevo.space import Configuration, Space
from autotvm_opevo.topology.base import integer
from autotvm_opevo.topology.choices import is_number

# A child that is not new or not allowed is mutated so many times, and then left for another child of the same parents, so many
# times before a random configuration takes its place.
_WALKS, _CHILDREN = 10, 10
# Random draws before the space is enumerated, or given up where it is too large for that.
_DRAWS, _DRAWS_AT_MOST = 100, 10_000
_ENUMERABLE = 10**6


class OpEvo:
    """Search a space for the configuration of the highest fitness, evaluating as few as possible.

    The first `parents_size` configurations are random. From then on, whenever `ask` has none left, it makes `offspring_size`
    children: each knob of a child comes from one of the best `parents_size` configurations known, drawn in proportion to
    their fitness (Equation 2), and walks on its graph (Equation 3). No configuration is proposed twice, nor one that was told.

    Parameters
    ----------
    space : Space
        Where to search.
    parents_size : int
        lambda: how many configurations may have children. More are more robust, fewer are quicker.
    offspring_size : int
        rho: how many children are made from one set of parents.
    mutation_rate : float
        q, 0 < q < 1: near 0 exploits what is good, near 1 explores.
    seed : int, optional
        Where the proposals' randomness starts: the same seed and the same results give the same proposals. None draws one.

    Attributes
    ----------
    space, parents_size, offspring_size, mutation_rate
        As given.
    seed : int
        The one given, or the one drawn.

    Raises
    ------
    ValueError
        If an argument is not what it should be.

    Examples
    --------
    >>> from autotvm_opevo.topology import Discrete, Factorization
    >>> space = Space({"tile": Factorization(64, parts=2), "unroll": Discrete([0, 16, 64])})
    >>> search = OpEvo(space, seed=0)
    >>> while configurations := search.ask(8):
    ...     search.tell(configurations, [c["tile"][0] + c["unroll"] for c in configurations])
    >>> search.best
    ({'tile': (64, 1), 'unroll': 64}, 128.0)
    """

    def __init__(
        self,
        space: Space,
        parents_size: int = 8,
        offspring_size: int = 8,
        mutation_rate: float = 0.5,
        seed: int | None = None,
    ) -> None:
        if not isinstance(space, Space):
            raise ValueError(f"space must be a Space, {space!r} given")
        self.space = space
        self.parents_size = integer("parents_size", parents_size)
        self.offspring_size = integer("offspring_size", offspring_size)
        self.mutation_rate = random_walk.check_rate("mutation_rate", mutation_rate)
        self.seed = _entropy() if seed is None else integer("seed", seed, at_least=0)
        self._rng = np.random.default_rng(self.seed)
        # Configurations are kept as their numbers in the space.
        self._fitness: dict[int, float] = {}  # of all that were told
        self._ranking: list[tuple[float, int]] = []  # Q of Algorithm 1: (-fitness, number), best first, failures left out
        self._known: set[int] = set()  # queued, proposed or told: not to be proposed again
        self._queue: deque[int] = deque()  # made and not proposed yet
        self._left: list[int] | None = None  # once enumerated: all that may not be known yet, in random order

    @property
    def best(self) -> tuple[Configuration, float] | None:
        """The best configuration told and its fitness; None while there is none, or all have failed."""
        if not self._ranking:
            return None
        fitness, number = self._ranking[0]
        return self.space[number], -fitness

    def ask(self, n: int = 1) -> list[Configuration]:
        """Propose up to `n` configurations that were never proposed or told before.

        Fewer are returned when the space has no more, or, where a constraint rules over more points than can be enumerated,
        when no more are found in a bounded number of tries; none at all, the empty list, when there is nothing left.

        Raises
        ------
        ValueError
            If `n` is negative or no integer.
        """
        n = integer("n", n, at_least=0)
        batch: list[Configuration] = []
        while len(batch) < n and self.has_next():
            batch.append(self.space[self._queue.popleft()])
        return batch

    def has_next(self) -> bool:
        """Whether `ask` would propose anything; to find out, it makes the next children when none are queued."""
        while self._queue and self._queue[0] in self._fitness:  # told while it waited
            self._queue.popleft()
        if not self._queue:
            self._refill()
        return bool(self._queue)

    def tell(self, configurations: Sequence[Mapping[str, Any]], fitnesses: Sequence[float]) -> None:
        """Take results: of proposals in any order and grouping, and of configurations that were never asked for.

        Nothing is taken when an argument is wrong.

        Parameters
        ----------
        configurations : sequence of dict
            Told again, a configuration keeps its later fitness. What the constraint forbids may be told, and be a parent,
            though it is never proposed.
        fitnesses : sequence of float, same length
            Higher is better, only ratios matter; 0 for a configuration that failed.

        Raises
        ------
        ValueError
            If the lengths differ, a configuration is none of the space's, or a fitness is negative, NaN or infinite.
        """
        if isinstance(configurations, Mapping) or not (hasattr(configurations, "__len__") and hasattr(fitnesses, "__len__")):
            raise ValueError(
                f"sequences of configurations and of fitnesses are needed, {configurations!r} and {fitnesses!r} given"
            )
        if len(configurations) != len(fitnesses):
            raise ValueError(f"as many fitnesses as configurations are needed, {len(configurations)} and {len(fitnesses)} given")
        results = list(zip(map(self.space.index, configurations), map(_checked, fitnesses)))
        for number, fitness in results:
            if self._fitness.get(number):
                del self._ranking[bisect_left(self._ranking, (-self._fitness[number], number))]
            if fitness:
                insort(self._ranking, (-fitness, number))
            self._fitness[number] = fitness
            self._known.add(number)

    def _refill(self) -> None:
        """Queue children of the best, or random configurations while nothing valid is known; fewer when there are no more."""
        parents = [(self.space[number], -fitness) for fitness, number in self._ranking[: self.parents_size]]
        for _ in range(self.offspring_size if parents else self.parents_size):
            number = self._child(parents)
            if number is None:
                number = self._unseen()
            if number is None:
                break
            self._known.add(number)
            self._queue.append(number)

    def _child(self, parents: list[tuple[Configuration, float]]) -> int | None:
        """A new and allowed child; None without parents, or when none is found."""
        if not parents:
            return None
        for _ in range(_CHILDREN):
            child = self._recombined(parents)
            for _ in range(_WALKS):  # from where it stands, as Section 4.4 has it
                for name, topology in self.space.knobs.items():
                    child[name] = random_walk.sample(topology, child[name], self.mutation_rate, self._rng)
                number = self.space.index(child)
                if number not in self._known and self.space.allows(child):
                    return number
        return None

    def _recombined(self, parents: list[tuple[Configuration, float]]) -> Configuration:
        """Every knob from a parent drawn in proportion to its fitness (Equation 2)."""
        best = parents[0][1]
        weights = list(accumulate(fitness / best for _, fitness in parents))
        draws = self._rng.random(len(self.space.knobs)) * weights[-1]
        heirs = np.searchsorted(weights, draws, side="right").clip(max=len(parents) - 1)
        return {name: parents[j][0][name] for name, j in zip(self.space.knobs, heirs)}

    def _unseen(self) -> int | None:
        """A random configuration that is new and allowed; None when there is none, or none is found."""
        enumerable = self.space.size <= _ENUMERABLE
        if self._left is None:
            for _ in range(_DRAWS if enumerable else _DRAWS_AT_MOST):
                candidate = self.space.random(self._rng)
                number = self.space.index(candidate)
                if number not in self._known and self.space.allows(candidate):
                    return number
            if not enumerable:
                return None
            left = [i for i, c in enumerate(self.space) if i not in self._known and self.space.allows(c)]
            self._left = [left[i] for i in self._rng.permutation(len(left))]
        while self._left:
            number = self._left.pop()
            if number not in self._known:
                return number
        return None


def _checked(fitness: Any) -> float:
    if not is_number(fitness) or not 0 <= fitness <= sys.float_info.max:
        raise ValueError(f"fitness must be a finite number of at least 0 (0 means failed), {fitness!r} given")
    return float(fitness)


def _entropy() -> int:
    entropy = np.random.SeedSequence().entropy  # from the operating system: nobody else's generator moves
    assert isinstance(entropy, int)
    return entropy
