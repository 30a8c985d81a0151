"""Ask and tell, which all searches share. No configuration is proposed twice."""

from __future__ import annotations

import logging
import sys
from abc import ABC, abstractmethod
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import chain
from secrets import randbits
from typing import Any

import numpy as np

from autotvm_opevo._utils.timeouts import say_if_long
from autotvm_opevo._utils.validation import as_integer, is_number
from autotvm_opevo.search.feasible import FeasibleWalks, likely_draws
from autotvm_opevo.search.space import Configuration, Space

logger = logging.getLogger(__name__)

# How many configurations to propose before there are results, since all would be random; see
# `batch_limit`.
FIRST_BATCH = 8
# Random draws before a space of at most _MAX_ENUMERATED points is enumerated, and before walks take
# their place in a larger one.
_DRAWS, _MAX_DRAWS = 100, 10_000
_MAX_ENUMERATED = 10**6


class Search(ABC):
    """Find the configuration with the highest fitness in few evaluations.

    No configuration is proposed twice, nor one whose result was told. A subclass decides what comes
    next, by `_propose`. With the same seed, which is drawn if None, the same calls of `ask` and
    `tell` give the same proposals.
    """

    # Whether a generation needs all results of the one before: then a batch ends with the
    # generation.
    generational = False
    # Whether `learn_from` has an effect.
    can_transfer = False

    def __init__(self, space: Space, seed: int | None = None) -> None:
        if not isinstance(space, Space):
            raise ValueError(f"space must be a Space, {space!r} given")
        self.space = space
        # from the operating system: no global generator is read
        self.seed = randbits(128) if seed is None else as_integer("seed", seed, at_least=0)
        self._rng = np.random.default_rng(self.seed)
        # Configurations are stored as their numbers in the space. Of all that were told, the
        # fitness, 0 for failures; not to be changed by others.
        self.results: dict[int, float] = {}
        # (-fitness, number), best first, without failures
        self._ranking: list[tuple[float, int]] = []
        self._known: set[int] = set()  # queued, proposed or told: not generated again
        self._queue: deque[int] = deque()  # to be proposed next
        self._pending: dict[int, None] = {}  # proposed, not yet told, oldest first
        self._last_n = 1  # as `ask` was asked last
        # once enumerated: a superset of what may be proposed, in random order
        self._remaining: list[int] | None = None
        self._walks: FeasibleWalks | None = None  # once random draws have found nothing feasible
        self._likely_draws: Iterator[Configuration] = iter(())
        self._starts_in_vain = -1  # number of starts from which these found nothing
        self._warned = False

    @property
    def best(self) -> tuple[Configuration, float] | None:
        """The best configuration and its fitness; None before the first success."""
        if not self._ranking:
            return None
        fitness, number = self._ranking[0]
        return self.space[number], -fitness

    @property
    def pending(self) -> list[Configuration]:
        """The proposals whose results were not told, oldest first."""
        return [self.space[number] for number in self._pending]

    def enqueue(self, configurations: Sequence[Mapping[str, Any]]) -> None:
        """Propose these configurations next, in this order, whether or not the constraint allows
        them.

        Those that are pending, or whose results were told, are skipped.

        Raises
        ------
        ValueError
            If a configuration is not in the space.
        """
        numbers = dict.fromkeys(map(self.space.index, configurations))
        new = [n for n in numbers if n not in self._pending and n not in self.results]
        self._queue = deque(dict.fromkeys([*new, *self._queue]))
        self._known.update(new)

    def ask(self, n: int = 1) -> list[Configuration]:
        """Propose up to `n` configurations, none of them proposed or told before; first those of
        `enqueue`.

        The list is shorter when the space is nearly exhausted, and at the end of a generation whose
        results the search needs. It is empty when nothing is left. Where a constraint leaves so
        little of a space too large to enumerate that random draws find nothing feasible, what comes
        next is near what is known to be. If nothing is found, a warning names the constraint.

        Raises
        ------
        ValueError
            If `n` is not a non-negative integer.
        """
        n = as_integer("n", n, at_least=0)
        batch: list[Configuration] = []
        while (
            len(batch) < n
            and not (self.generational and batch and not self._queue)
            and self._fill_queue(n - len(batch))
        ):
            number = self._queue.popleft()
            self._pending[number] = None
            batch.append(self.space[number])
        self._last_n = max(n, 1)
        return batch

    def has_next(self) -> bool:
        """Whether `ask` would propose anything."""
        return self._fill_queue(self._last_n)

    def _fill_queue(self, n: int) -> bool:
        """Queue what comes next, if nothing is queued; returns whether there is anything."""
        if not self._queue:
            for number in self._propose(n):
                if number is None:
                    number = self._draw()
                if number is None:
                    break
                self._known.add(number)
                self._queue.append(number)
        return bool(self._queue)

    def tell(
        self, configurations: Sequence[Mapping[str, Any]], fitnesses: Sequence[float | None]
    ) -> None:
        """Report results: of proposals, in any order and grouping, and of configurations that were
        never proposed.

        All or nothing: an invalid argument leaves the search as it was.

        Parameters
        ----------
        configurations : sequence of dict
            Told again, a configuration keeps its latest fitness. Infeasible configurations may be
            told and become parents, though they are never proposed.
        fitnesses : sequence of (float or None), same length
            Higher is better, only ratios matter; 0 for a failure. None for a proposal that gets no
            result, such as one that is the same program as another: nothing is learned of it, and
            it is not proposed again.

        Raises
        ------
        ValueError
            If the lengths differ, a configuration is not in the space, or a fitness is negative,
            NaN or infinite.
        """
        if isinstance(configurations, Mapping) or not (
            hasattr(configurations, "__len__") and hasattr(fitnesses, "__len__")
        ):
            raise ValueError(
                "tell needs a sequence of configurations and a sequence of fitnesses, "
                f"{configurations!r} and {fitnesses!r} given"
            )
        if len(configurations) != len(fitnesses):
            raise ValueError(
                f"tell needs one fitness per configuration, {len(fitnesses)} given for "
                f"{len(configurations)}"
            )
        checked = [None if fitness is None else check_fitness(fitness) for fitness in fitnesses]
        for number, fitness in list(zip(map(self.space.index, configurations), checked)):
            self._known.add(number)
            self._pending.pop(number, None)
            if number in self._queue:
                self._queue.remove(number)
            if fitness is not None:
                self._record(number, fitness)

    def _record(self, number: int, fitness: float) -> None:
        if self.results.get(number):
            del self._ranking[bisect_left(self._ranking, (-self.results[number], number))]
        if fitness:
            insort(self._ranking, (-fitness, number))
        self.results[number] = fitness

    def learn_from(self, sources: Sequence[Any]) -> list[Any]:
        """Learn from these instead of those given before; returns the sources that are used."""
        return []

    @abstractmethod
    def _propose(self, n: int) -> Iterator[int | None]:
        """Yield what comes next, by number, at least one if anything is left: configurations that
        may be proposed, or None for a random one.

        Each is known before the next is asked for. `n` are wanted; the rest of more is proposed
        later.
        """

    def _proposable(self, configuration: Configuration) -> int | None:
        """The number of a configuration that may be proposed; None for any other."""
        if not self.space.is_feasible(configuration):
            return None
        number = self.space.index(configuration)
        return None if number in self._known else number

    def _is_proposable(self, number: int) -> bool:
        """Whether the configuration is feasible and was not seen before."""
        return number not in self._known and (
            self.space.constraint is None or self.space.is_feasible(self.space[number])
        )

    def _draw(self) -> int | None:
        """A random configuration that may be proposed; None if none is left, or found."""
        enumerable = self.space.size <= _MAX_ENUMERATED
        if self._walks is not None:
            return self._draw_near()
        if self._remaining is None:
            for _ in range(_DRAWS if enumerable else _MAX_DRAWS):
                number = self._proposable(self.space.sample(self._rng))
                if number is not None:
                    return number
            if not enumerable:
                return self._draw_near() if self.space.constraint else None
            with self._say_if_slow():
                remaining = [
                    i
                    for i, c in enumerate(self.space)
                    if i not in self._known and self.space.is_feasible(c)
                ]
            if not remaining and not any(
                self.space.is_feasible(self.space[number]) for number in self._known
            ):
                self._warn_of_constraint("none")
            self._remaining = [remaining[i] for i in self._rng.permutation(len(remaining))]
        rest = self._enumerated()
        return rest.pop() if rest else None

    def _enumerated(self) -> list[int] | None:
        """What may be proposed, in random order; None while it is not enumerated."""
        if self._remaining is not None:
            self._remaining = [number for number in self._remaining if number not in self._known]
        return self._remaining

    def _draw_near(self) -> int | None:
        """A proposal near a known configuration, or else a likely one; None if none is found."""
        if self._walks is None:
            self._walks = FeasibleWalks(self.space, self._rng)
            self._likely_draws = likely_draws(self.space, self._rng)
        starts = self._starts()
        if len(starts) == self._starts_in_vain:
            return None
        likely = (
            number for draw in self._likely_draws if (number := self._proposable(draw)) is not None
        )
        with self._say_if_slow():
            number = next(chain(self._walks.walk(starts, self._proposable), likely), None)
        if number is None:
            self._starts_in_vain = len(starts)
            self._warn_of_constraint("few or none")
        return number

    def _starts(self) -> list[int]:
        """Where walks to feasible configurations begin."""
        return [*self.results, *self._pending, *self._queue]

    def _say_if_slow(self) -> AbstractContextManager[None]:
        """Say what is done meanwhile: a predicate can be slow."""
        constraint = self.space.constraint
        allowed = f"what the constraint {self._constraint_name} allows"
        return say_if_long(f"looking for {allowed if constraint else 'what is left'}")

    @property
    def _constraint_name(self) -> str:
        return getattr(self.space.constraint, "__qualname__", None) or repr(self.space.constraint)

    def _warn_of_constraint(self, share: str) -> None:
        """Say, once, that the search ends for the constraint's sake."""
        if not self._warned:
            logger.warning(
                "%s finds no %sfeasible configuration: the constraint %s leaves %s of %s. Check "
                "it, declare sizes whose product is given as one Factorization, or fold it into a "
                "topology, such as an InducedSubgraph of what it allows.",
                type(self).__name__,
                "other " if self._known else "",
                self._constraint_name,
                share,
                f"{self.space.size:,}",
            )
        self._warned = True


def check_fitness(fitness: Any) -> float:
    if not is_number(fitness) or not 0 <= fitness <= sys.float_info.max:
        raise ValueError(
            f"fitness must be a finite number of at least 0 (0 for a failure), {fitness!r} given"
        )
    return float(fitness)


def batch_limit(results: int) -> int:
    """How many configurations to propose before there are more results: a quarter as many, since
    more would be next to random, and at least 8.

    >>> [batch_limit(results) for results in (0, 32, 48, 100)]
    [8, 8, 12, 25]
    """
    return max(FIRST_BATCH, results // 4)
