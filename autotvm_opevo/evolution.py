"""OpEvo (Algorithm 1): evolution whose mutations are q-random walks, as a search that is asked and told."""

from __future__ import annotations

from itertools import accumulate

import numpy as np

from autotvm_opevo import random_walk
from autotvm_opevo.search import Search
from autotvm_opevo.space import Configuration, Space
from autotvm_opevo.topology.base import integer

# A child that is not new or not allowed is mutated so many times, and then left for another child of the same parents, so many
# times before a random configuration takes its place.
_WALKS, _CHILDREN = 10, 10


class OpEvo(Search):
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
        super().__init__(space, seed)
        self.parents_size = integer("parents_size", parents_size)
        self.offspring_size = integer("offspring_size", offspring_size)
        self.mutation_rate = random_walk.check_rate("mutation_rate", mutation_rate)

    def _refill(self) -> None:
        """Queue children of the best, or random configurations while nothing valid is known; fewer when there are no more."""
        parents = [(self.space[number], -fitness) for fitness, number in self._ranking[: self.parents_size]]
        for _ in range(self.offspring_size if parents else self.parents_size):
            if not self._enqueue(self._child(parents)):
                break

    def _child(self, parents: list[tuple[Configuration, float]]) -> int | None:
        """A new and allowed child; None without parents, or when none is found."""
        if not parents:
            return None
        for _ in range(_CHILDREN):
            child = self._recombined(parents)
            for _ in range(_WALKS):  # from where it stands, as Section 4.4 has it
                for name, topology in self.space.knobs.items():
                    child[name] = random_walk.sample(topology, child[name], self.mutation_rate, self._rng)
                number = self._new(child)
                if number is not None:
                    return number
        return None

    def _recombined(self, parents: list[tuple[Configuration, float]]) -> Configuration:
        """Every knob from a parent drawn in proportion to its fitness (Equation 2)."""
        best = parents[0][1]
        weights = list(accumulate(fitness / best for _, fitness in parents))
        draws = self._rng.random(len(self.space.knobs)) * weights[-1]
        heirs = np.searchsorted(weights, draws, side="right").clip(max=len(parents) - 1)
        return {name: parents[j][0][name] for name, j in zip(self.space.knobs, heirs)}
