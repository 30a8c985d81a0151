"""OpEvo (Algorithm 1): evolution by q-random walks, by default guided by a Gaussian process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, islice
from math import isqrt
from typing import Any

import numpy as np

import autotvm_opevo.search.random_walk as random_walk
from autotvm_opevo._utils.validation import as_integer
from autotvm_opevo.search.acquisition import Acquisition, Model
from autotvm_opevo.search.base import Search
from autotvm_opevo.search.space import Configuration, Space
from autotvm_opevo.search.transfer import Source, TransferModel, nearest_sources, source_of

# A configuration by its vertex numbers, and its fitness.
Vertices = Sequence[int]
Parents = Sequence[tuple[Vertices, float]]

# Children made for the acquisition to select from; with results of other tasks, or where hardly any
# child may be proposed, also random configurations.
_CANDIDATES, _RANDOM_CANDIDATES = 200, 100
# With this many results, the model knows enough to select among more in large spaces.
_MIN_RESULTS_MORE = 32
# Where random draws find nothing feasible, also where so many walks from the parents end.
_WALKS = 50
# With this many results of its own, a search that knows of other tasks selects every second
# candidate without them.
_MIN_RESULTS_ALONE = 8
# A child that is known or infeasible is mutated again, with at most _MAX_WALKS mutations in all;
# then another child is made, at most _MAX_ATTEMPTS; then a random configuration takes its place.
_MAX_WALKS, _MAX_ATTEMPTS = 10, 10


class OpEvo(Search):
    """Find the configuration with the highest fitness in few evaluations.

    Until a success is known, configurations are drawn at random, `parents_size` at a time. From
    then on the best `parents_size` configurations known are the parents: each knob of a child comes
    from a parent selected in proportion to fitness (Equation 2) and takes a q-random walk on its
    graph (Equation 3). No configuration is proposed twice, nor one whose result was told.

    With the Gaussian-process surrogate, `ask` makes 200 children and proposes those with the
    highest acquisition value: log expected improvement plus log probability of feasibility. From 32
    results on, in spaces of more than some 40,000 configurations, it makes as many as the square
    root of the size, at most 1,000, and for every four of those over 200 a configuration at most
    two steps from a parent. After 16 results and two batches without a better one, a third of the
    proposals are selected from the neighbours of the best configuration, and a third from random
    configurations. Without the surrogate, children are proposed as they are made, `offspring_size`
    from the same parents.

    Parameters
    ----------
    space : Space
        The search space.
    parents_size : int
        lambda, the number of parents. More are more robust, fewer converge faster.
    offspring_size : int
        rho, the number of children made from the same parents; with a surrogate, as many are
        selected as `ask` asks for.
    mutation_rate : float
        q, 0 < q < 1: near 0 exploits, near 1 explores.
    seed : int, optional
        Makes the search reproducible: with the same seed, the same calls of `ask` and `tell` give
        the same proposals. Drawn if None.
    surrogate : {"gp", None}
        ``"gp"`` selects among many children by a Gaussian process on the knobs' graphs, None is
        OpEvo as published.
    history : sequence of (Space, sequence of configurations, sequence of float)
        What was measured of other tasks: their spaces, in which knobs of the same name mean the
        same, configurations, and fitnesses. Needs ``surrogate="gp"``. See `learn_from`.

    Attributes
    ----------
    space, parents_size, offspring_size, mutation_rate, surrogate
        As given.
    seed : int
        As given, or as drawn.

    Raises
    ------
    ValueError
        If an argument is out of range.

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

    # After this many results without a better one, and at least two batches, neighbours of the best
    # and random configurations are candidates in pools of their own.
    patience = 16
    # Maximum number of children in large spaces.
    max_children = 1000

    def __init__(
        self,
        space: Space,
        parents_size: int = 8,
        offspring_size: int = 8,
        mutation_rate: float = 0.5,
        seed: int | None = None,
        surrogate: str | None = "gp",
        history: Sequence[tuple[Space, Sequence[Configuration], Sequence[float]]] = (),
    ) -> None:
        super().__init__(space, seed)
        if surrogate not in ("gp", None):
            raise ValueError(
                f'surrogate must be "gp", or None for OpEvo as published; {surrogate!r} given'
            )
        self.surrogate, self.can_transfer = surrogate, surrogate == "gp"
        self._acquisition = self.make_acquisition() if surrogate else None
        self._since_best = 0  # results since a better one
        self._transfer_model: TransferModel | None = None
        self._graphs = [random_walk.IndexedGraph(topology) for topology in space.knobs.values()]
        self.parents_size = as_integer("parents_size", parents_size)
        self.offspring_size = as_integer("offspring_size", offspring_size)
        self.mutation_rate = random_walk.check_rate("mutation_rate", mutation_rate)
        self._last_n = self.offspring_size  # until `ask` says otherwise
        if history:
            self.learn_from(list(map(source_of, history)))

    @property
    def sources(self) -> Sequence[Source]:
        """What it learns from, of what `learn_from` was given last."""
        return tuple(self._transfer_model.sources) if self._transfer_model else ()

    def learn_from(self, sources: Sequence[Source]) -> list[Source]:
        """Take results of other tasks into account, in place of those given before; returns the
        sources that are used.

        At most eight are, those with the most similar knobs, and none much less similar than the
        nearest. Until `parents_size` configurations are known, their best ones are proposed, in
        turn. Then the Gaussian process has the task as one more knob, which is learned like the
        others; and from 8 results on, every second proposal is selected without the other tasks,
        which can mislead.

        Raises
        ------
        ValueError
            If the surrogate is not ``"gp"``.
        """
        if sources and not self.can_transfer:
            raise ValueError(f'history needs surrogate="gp", {self.surrogate!r} given')
        usable = [source for source in sources if any(source.results.values())]
        used = nearest_sources(self.space, usable)
        if [id(source.results) for source in used] == [id(known.results) for known in self.sources]:
            return used  # what was learned of them is kept
        if used:
            self._transfer_model = TransferModel(self.space, self._rng, used)
            alone = Model(self.space, self._rng, min_results=_MIN_RESULTS_ALONE)
            self._acquisition = Acquisition([self._transfer_model, alone])
        else:
            self._transfer_model, self._acquisition = None, self.make_acquisition()
        return used

    def make_acquisition(self) -> Acquisition:
        """What selects candidates while no other task is known; subclasses may have another."""
        return Acquisition([Model(self.space, self._rng)])

    def tell(
        self, configurations: Sequence[Mapping[str, Any]], fitnesses: Sequence[float | None]
    ) -> None:
        """See `Search.tell`; counts the results without a better one."""
        before = self._best_fitness
        super().tell(configurations, fitnesses)
        is_better = self._best_fitness > before or before == 0
        self._since_best = (
            0 if is_better else self._since_best + len(fitnesses) - list(fitnesses).count(None)
        )

    @property
    def _best_fitness(self) -> float:
        return -self._ranking[0][0] if self._ranking else 0.0

    def _propose(self, n: int) -> Iterator[int | None]:
        """Children of the parents; without these, random configurations."""
        portfolio = self._transfer_model.portfolio() if self._transfer_model else []
        start = [number for number, _ in portfolio if self._is_proposable(number)][
            : max(0, self.parents_size - len(self._known))
        ]
        if start:
            yield from start
            return
        parents = [
            (self.space.vertices(number), -fitness)
            for fitness, number in self._ranking[: self.parents_size]
        ]
        best = parents[0][1] if parents else 1.0
        parents += [
            (self.space.vertices(number), best * relative)
            for number, relative in portfolio
            if number not in self.results  # where it may have failed
        ][: self.parents_size - len(parents)]
        if self._acquisition is None or not (parents or self._transfer_model):
            for _ in range(self.offspring_size if parents else self.parents_size):
                yield self._child(parents)
            return
        pools = [self._candidates(parents, [number for number, _ in portfolio])]
        if parents and self._since_best >= max(self.patience, 2 * n):
            pools += [self._neighbours(parents[0][0]), self._random(_CANDIDATES)]
        selected = self._acquisition.select(pools, self.results, list(self._pending), n)
        yield from selected
        # no candidate may be proposed: try single children, then a random configuration
        if not selected:
            yield self._child(parents)

    def _candidates(self, parents: Parents, portfolio: Sequence[int]) -> list[int]:
        """Distinct children that may be proposed, and a portfolio; once what is left is enumerated,
        since hardly anything else may be proposed, some of that, or all if it is few.
        """
        rest = self._enumerated()
        if rest is not None and len(rest) <= _CANDIDATES:
            return rest
        candidates = [*(self._children(parents) if parents else ()), *portfolio]
        # the portfolio's basin can be another than the optimum's
        if self._transfer_model or rest is not None:
            candidates += self._random(_RANDOM_CANDIDATES)
        candidates += islice(self._walked(parents), _WALKS)
        return [number for number in dict.fromkeys(candidates) if self._is_proposable(number)]

    def _children(self, parents: Parents) -> list[int]:
        """Children for the acquisition to select from, in large spaces also configurations near the
        parents; some of them equal or known.
        """
        more = 0
        if len(self.results) >= _MIN_RESULTS_MORE:
            more = max(0, min(isqrt(self.space.size), self.max_children) - _CANDIDATES)
        by_knob = zip(*self._crossover(parents, _CANDIDATES + more))
        mutated = [
            random_walk.sample_many(graph, vertices, self.mutation_rate, self._rng)
            for graph, vertices in zip(self._graphs, by_knob)
        ]
        near = [self._perturb(parents) for _ in range(more // 4)]
        return list(map(self.space.number, [*zip(*mutated), *near]))

    def _perturb(self, parents: Parents) -> Vertices:
        """A configuration at most two steps from a parent, which children seldom are where knobs
        are many.
        """
        near = list(parents[self._rng.integers(len(parents))][0])
        for i in self._rng.integers(len(near), size=self._rng.integers(1, 3)):
            neighbours = self._graphs[i].neighbours(near[i])
            if len(neighbours):
                near[i] = neighbours[self._rng.integers(len(neighbours))]
        return near

    def _neighbours(self, vertices: Vertices) -> list[int]:
        """Some configurations that may be proposed, one step of one knob away."""
        neighbours = []
        for i, graph in enumerate(self._graphs):
            steps = graph.neighbours(vertices[i])
            for j in self._rng.permutation(len(steps))[: max(1, _CANDIDATES // len(self._graphs))]:
                neighbours.append(self.space.number([*vertices[:i], steps[j], *vertices[i + 1 :]]))
        return [number for number in neighbours if self._is_proposable(number)]

    def _random(self, count: int) -> list[int]:
        """Proposals among random configurations, or among what is enumerated."""
        if (rest := self._enumerated()) is not None:
            positions = self._rng.choice(len(rest), min(count, len(rest)), replace=False)
            return [rest[i] for i in positions]
        drawn = dict.fromkeys(self.space.index(self.space.sample(self._rng)) for _ in range(count))
        return [number for number in drawn if self._is_proposable(number)]

    def _child(self, parents: Parents) -> int | None:
        """A child that may be proposed; None without parents, or when none is found."""
        if not parents:
            return None
        for _ in range(_MAX_ATTEMPTS):
            child = self._crossover(parents, 1)[0]
            for _ in range(_MAX_WALKS):
                child = self._mutate(child)  # again, from where it stands (Section 4.4)
                number = self.space.number(child)
                if self._is_proposable(number):
                    return number
        return next(self._walked(parents), None)

    def _walked(self, parents: Parents) -> Iterator[int]:
        """Proposals near the parents, where random draws find nothing feasible."""
        if self._walks is not None:
            yield from self._walks.walk(
                [self.space.number(vertices) for vertices, _ in parents], self._proposable
            )

    def _starts(self) -> list[int]:
        """See `Search`; also what was best for other tasks."""
        portfolio = self._transfer_model.portfolio() if self._transfer_model else []
        return [*super()._starts(), *(number for number, _ in portfolio)]

    def _mutate(self, child: Vertices) -> Vertices:
        """Every knob takes a q-random walk on its graph (Equation 3)."""
        return [
            random_walk.sample(graph, vertex, self.mutation_rate, self._rng)
            for graph, vertex in zip(self._graphs, child)
        ]

    def _crossover(self, parents: Parents, count: int) -> list[Vertices]:
        """Multi-parent recombination: every knob of a child comes from a parent selected in
        proportion to fitness (Equation 2).
        """
        best = parents[0][1]
        cumulative = list(accumulate(fitness / best for _, fitness in parents))
        draws = self._rng.random((count, len(self.space.knobs))) * cumulative[-1]
        selected = np.searchsorted(cumulative, draws, side="right").clip(max=len(parents) - 1)
        return [[parents[j][0][i] for i, j in enumerate(child)] for child in selected.tolist()]
