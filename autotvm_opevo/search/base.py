"""What every search shares: it is asked and told, proposes nothing twice, and knows when its space is exhausted."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from autotvm_opevo._utils.validation import as_integer, is_number
from autotvm_opevo.search.space import Configuration, Space

# Random draws before the space is enumerated, or given up where it is too large for that.
_DRAWS, _DRAWS_AT_MOST = 100, 10_000
_ENUMERABLE = 10**6


class Search(ABC):
    """Search a space for the configuration of the highest fitness, evaluating as few as possible.

    No configuration is proposed twice, nor one that was told. A subclass says what comes next (`_generate`).

    Parameters
    ----------
    space : Space
        Where to search.
    seed : int, optional
        Where the proposals' randomness starts: the same seed and the same results give the same proposals. None draws one.

    Attributes
    ----------
    space
        As given.
    seed : int
        The one given, or the one drawn.

    Raises
    ------
    ValueError
        If an argument is not what it should be.
    """

    # Whether what follows is made from the results of what was proposed, all of them: then a batch ends where the queue does.
    _generational = False

    def __init__(self, space: Space, seed: int | None = None) -> None:
        if not isinstance(space, Space):
            raise ValueError(f"space must be a Space, {space!r} given")
        self.space = space
        self.seed = _entropy() if seed is None else as_integer("seed", seed, at_least=0)
        self._rng = np.random.default_rng(self.seed)
        # Configurations are kept as their numbers in the space.
        self._fitness: dict[int, float] = {}  # of all that were told
        self._ranking: list[tuple[float, int]] = []  # (-fitness, number), best first, failures left out
        self._known: set[int] = set()  # queued, proposed or told: not to be proposed again
        self._queue: deque[int] = deque()  # made and not proposed yet
        self._pending: dict[int, None] = {}  # queued or proposed, and not told yet, oldest first
        self._batch_size = 1  # how many proposals are needed, as far as `ask` has said
        self._remaining: list[int] | None = None  # once enumerated: all that may not be known yet, in random order

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
        when no more are found in a bounded number of tries, and at the end of a generation whose results the search needs; none
        at all, the empty list, when there is nothing left.

        Raises
        ------
        ValueError
            If `n` is negative or no integer.
        """
        n = as_integer("n", n, at_least=0)
        batch: list[Configuration] = []
        while len(batch) < n and not (self._generational and batch and not self._queue):
            self._batch_size = n - len(batch)
            if not self.has_next():
                break
            batch.append(self.space[self._queue.popleft()])
        self._batch_size = max(n, 1)
        return batch

    def has_next(self) -> bool:
        """Whether `ask` would propose anything; to find out, it makes the next proposals when none are queued."""
        while self._queue and self._queue[0] in self._fitness:  # told while it waited
            self._queue.popleft()
        if not self._queue:
            self._generate()
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
            self._pending.pop(number, None)

    def discard(self, configurations: Sequence[Mapping[str, Any]]) -> None:
        """Expect no results of proposals: they are not proposed again, and nothing is learned from them.

        For those that turn out to be another configuration under a second name, which alone is told.

        Raises
        ------
        ValueError
            If one is none of the space's.
        """
        for number in map(self.space.index, configurations):
            self._known.add(number)
            self._pending.pop(number, None)

    @abstractmethod
    def _generate(self) -> None:
        """Queue what to propose next, with `_enqueue`; nothing when there is nothing left."""

    def _enqueue(self, number: int | None) -> bool:
        """Let a new configuration be proposed, or, where None came up, a random one; False when there are no more."""
        if number is None:
            number = self._unseen()
        if number is None:
            return False
        self._known.add(number)
        self._pending[number] = None
        self._queue.append(number)
        return True

    def _new(self, configuration: Configuration) -> int | None:
        """The number of a configuration that may be proposed; None when it is known or forbidden."""
        number = self.space.index(configuration)
        return number if self._is_proposable(number) else None

    def _is_proposable(self, number: int) -> bool:
        """Whether the configuration of that number may be proposed."""
        return number not in self._known and (self.space.constraint is None or self.space.is_feasible(self.space[number]))

    def _unseen(self) -> int | None:
        """A random configuration that is new and allowed; None when there is none, or none is found."""
        enumerable = self.space.size <= _ENUMERABLE
        if self._remaining is None:
            for _ in range(_DRAWS if enumerable else _DRAWS_AT_MOST):
                number = self._new(self.space.sample(self._rng))
                if number is not None:
                    return number
            if not enumerable:
                return None
            left = [i for i, c in enumerate(self.space) if i not in self._known and self.space.is_feasible(c)]
            self._remaining = [left[i] for i in self._rng.permutation(len(left))]
        while self._remaining:
            number = self._remaining.pop()
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
