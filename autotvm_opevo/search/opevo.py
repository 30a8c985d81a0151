"""OpEvo (Algorithm 1): evolution whose mutations are q-random walks, as a search that is asked and told."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from autotvm_opevo._utils.validation import as_integer
from autotvm_opevo.search import random_walk
from autotvm_opevo.search.acquisition import Screening
from autotvm_opevo.search.base import Search
from autotvm_opevo.search.space import Space
from autotvm_opevo.topology.indexed import IndexedGraph

# A configuration by the numbers of its vertices, and its fitness.
Vertices = Sequence[int]
Parents = Sequence[tuple[Vertices, float]]

# What may guide the search.
SURROGATES = ("gp",)
# So many children are made for the surrogate to choose from.
_CANDIDATES = 200

# A child that is not new or not allowed is mutated so many times, and then left for another child of the same parents, so many
# times before a random configuration takes its place.
_WALKS, _CHILDREN = 10, 10


class OpEvo(Search):
    """Search a space for the configuration of the highest fitness, evaluating as few as possible.

    The first `parents_size` configurations are random. From then on, whenever `ask` has none left, it makes `offspring_size`
    children: each knob of a child comes from one of the best `parents_size` configurations known, drawn in proportion to
    their fitness (Equation 2), and walks on its graph (Equation 3). No configuration is proposed twice, nor one that was told.

    With a surrogate many more children are made, and those are proposed that promise most, after all results so far
    (`Screening`).

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
        Where the proposals' randomness starts: the same seed, asked and told the same, gives the same proposals. None draws one.
    surrogate : {"gp", None}
        What chooses among the children: nothing, which is OpEvo as published, or a Gaussian process whose kernel counts
        steps on the knobs' graphs. As many are chosen as are asked for, and `offspring_size` of them before anybody has asked.

    Attributes
    ----------
    space, parents_size, offspring_size, mutation_rate, surrogate
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
        surrogate: str | None = "gp",
    ) -> None:
        super().__init__(space, seed)
        if surrogate not in (None, *SURROGATES):
            raise ValueError(f"surrogate must be None or one of {', '.join(map(repr, SURROGATES))}; {surrogate!r} given")
        self.surrogate = surrogate
        self._screening = Screening(space, self._rng) if surrogate else None
        self._graphs = [IndexedGraph(topology) for topology in space.knobs.values()]
        self.parents_size = as_integer("parents_size", parents_size)
        self.offspring_size = as_integer("offspring_size", offspring_size)
        self.mutation_rate = random_walk.check_rate("mutation_rate", mutation_rate)
        self._batch_size = self.offspring_size  # until somebody asks

    def _generate(self) -> None:
        """Queue children of the best, or random configurations while nothing valid is known; fewer when there are no more.

        With a surrogate, the children that it chooses of many.
        """
        parents = [(self.space.vertices(number), -fitness) for fitness, number in self._ranking[: self.parents_size]]
        if self._screening is None or not parents:
            for _ in range(self.offspring_size if parents else self.parents_size):
                if not self._enqueue(self._child(parents)):
                    break
            return
        candidates, waiting = self._candidates(parents), list(self._pending)
        for number in self._screening.choose(candidates, self._fitness, waiting, self._batch_size):
            self._enqueue(number)
        if not self._queue:  # no candidate was new: this walks on until one is
            self._enqueue(self._child(parents))

    def _candidates(self, parents: Parents) -> list[int]:
        """New and allowed children, all different; once few configurations are known to be left, all of them."""
        if self._remaining is not None and len(self._remaining) <= _CANDIDATES:
            made = self._remaining
        else:
            made = [self.space.number(self._mutate(self._crossover(parents))) for _ in range(_CANDIDATES)]
        return [number for number in dict.fromkeys(made) if self._is_proposable(number)]

    def _child(self, parents: Parents) -> int | None:
        """A new and allowed child; None without parents, or when none is found."""
        if not parents:
            return None
        for _ in range(_CHILDREN):
            child = self._crossover(parents)
            for _ in range(_WALKS):
                child = self._mutate(child)  # from where it stands, as Section 4.4 has it
                number = self.space.number(child)
                if self._is_proposable(number):
                    return number
        return None

    def _mutate(self, child: Vertices) -> Vertices:
        """Every knob walks on its graph (Equation 3)."""
        return [random_walk.sample(graph, vertex, self.mutation_rate, self._rng) for graph, vertex in zip(self._graphs, child)]

    def _crossover(self, parents: Parents) -> Vertices:
        """Every knob from a parent drawn in proportion to its fitness (Equation 2)."""
        best = parents[0][1]
        weights = list(accumulate(fitness / best for _, fitness in parents))
        draws = self._rng.random(len(self.space.knobs)) * weights[-1]
        selected = np.searchsorted(weights, draws, side="right").clip(max=len(parents) - 1)
        return [parents[j][0][i] for i, j in enumerate(selected)]
