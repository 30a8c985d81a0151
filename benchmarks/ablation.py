"""What each part of the surrogate buys: the search with the part left out, or with another in its place.

    python -m benchmarks.ablation        # landscapes and further options are those of `benchmarks.compare`

A row's name says what is different. Rows are this module's classes; what they replace is in `autotvm_opevo.search.acquisition`,
`autotvm_opevo.search.gp` and `autotvm_opevo.search.opevo`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import cycle
from typing import Any

import numpy as np
from scipy.linalg import eigh
from scipy.optimize import minimize
from tvm.autotvm.task import Task
from tvm.autotvm.tuner import Tuner

from autotvm_opevo import OpEvo, Space, random_walk
from autotvm_opevo.autotvm.tuner import SearchTuner
from autotvm_opevo.search.acquisition import Screening
from autotvm_opevo.search.gp import Expectation, Kernel, Rates, believed, bounds, doubt, learned, surprise
from autotvm_opevo.search.opevo import Parents
from autotvm_opevo.topology import Topology

Array = np.ndarray[Any, np.dtype[Any]]

# --- the kernel -----------------------------------------------------------------------------------------------------------------


class Unlearned(Screening):
    """All knobs keep the q that is believed at first."""

    def _learned(self, points: Array, values: Array, start: Rates) -> Rates:
        return start


class OneRate(Screening):
    """All knobs have the same q, which is learned."""

    def _learned(self, points: Array, values: Array, start: Rates) -> Rates:
        found = learned(self._kernel.distances(points).sum(axis=0, keepdims=True), values, Rates(start.decay[:1], start.noise))
        return Rates(np.repeat(found.decay, len(start.decay)), found.noise)


class OwnKernel(Screening):
    """With another kernel."""

    kernel: type[Kernel]

    def __init__(self, space: Space, rng: np.random.Generator) -> None:
        super().__init__(space, rng)
        self._kernel = self.kernel(space)
        self._told = self._points([])


class Unordered(Kernel):
    """Any two values of a knob are equally far from each other: no graph."""

    def points(self, configurations: Any) -> Array:
        return np.array(list(configurations), dtype=float).reshape(-1, len(self._topologies))

    def distances(self, points: Array) -> Array:
        return np.array([column[:, None] != column for column in points.T], dtype=float)

    def correlations(self, first: Array, second: Array, decay: Array) -> Array:
        return np.exp(-np.tensordot(decay, first.T[:, :, None] != second.T[:, None, :], 1))


class Spectral(Unordered):
    """The law of the walk itself, made symmetric: (I - qN)^-1 with N = D^-1/2 A D^-1/2, scaled to a diagonal of ones."""

    def __init__(self, space: Space) -> None:
        super().__init__(space)
        self._spectra = [_spectrum(topology) for topology in self._topologies]

    def correlations(self, first: Array, second: Array, decay: Array) -> Array:
        product = np.ones((len(first), len(second)))
        for (values, vectors), rate, a, b in zip(self._spectra, decay, first.T.astype(int), second.T.astype(int)):
            law = (vectors / (1 - np.exp(-rate) * values)) @ vectors.T
            scale = np.sqrt(np.diag(law))
            product *= (law / np.outer(scale, scale))[np.ix_(a, b)]
        return product


def _spectrum(topology: Topology) -> tuple[Array, Array]:
    steps = random_walk.transition_matrix(topology, 0.5).toarray()
    values, vectors = eigh(np.sqrt(steps * steps.T) / 0.5)
    return values, vectors


class SpectralWalk(OwnKernel):
    """The spectral kernel; its likelihood's gradient is taken by finite differences."""

    kernel = Spectral

    def _learned(self, points: Array, values: Array, start: Rates) -> Rates:
        values = (values - values.mean()) / values.std()

        def improbability(logarithms: Array) -> float:
            *decay, noise = np.exp(logarithms)
            return surprise(self._kernel.correlations(points, points, decay), noise, values)[0] + doubt(logarithms)[0]

        begin, within = np.log([*start.decay, start.noise]), bounds(len(start.decay))
        found = minimize(improbability, begin, method="L-BFGS-B", bounds=within, options={"maxiter": 20})
        *decay, noise = np.exp(found.x)
        return Rates(np.array(decay), noise)


class WithoutGraphs(OwnKernel):
    """Any two values of a knob say the same about each other."""

    kernel = Unordered


# --- what is expected -----------------------------------------------------------------------------------------------------------


class LogarithmAlone(Screening):
    """Improvement is expected of the logarithm of the fitness only."""

    def __init__(self, space: Space, rng: np.random.Generator) -> None:
        super().__init__(space, rng)
        self._kinds = cycle([0])


class RankAlone(Screening):
    """Improvement is expected of the rank only."""

    def __init__(self, space: Space, rng: np.random.Generator) -> None:
        super().__init__(space, rng)
        self._kinds = cycle([1])


class FitnessItself(Screening):
    """The fitness as it is in the place of its rank."""

    def _values(self, fitness: Array) -> Array:
        values = super()._values(fitness)
        values[:, 1] = fitness / fitness.max()
        return values


class WithoutFailures(Screening):
    """Failures teach nothing."""

    def _chance(self, points: Array, worked: Array, candidates: Array) -> Array:
        return np.zeros(len(candidates))


# --- which candidate ------------------------------------------------------------------------------------------------------------


class Greedy(LogarithmAlone):
    """What has the best mean, however certain."""

    def _improvement(self, expected: Expectation, kind: int, best: float) -> Array:
        return expected.mean[:, kind]


class Optimistic(LogarithmAlone):
    """What has the best mean plus two standard deviations."""

    def _improvement(self, expected: Expectation, kind: int, best: float) -> Array:
        return expected.mean[:, kind] + 2 * expected.deviation(kind)


class BestOfEach(Screening):
    """The best of a batch, one by one, without regard to each other."""

    def _expected(self, points: Array, fitness: Array, candidates: Array) -> tuple[Expectation, Array]:
        expected, best = super()._expected(points, fitness, candidates)
        expected.choose = lambda j: None  # type: ignore[method-assign]
        return expected, best


# --- candidates and the first configurations ------------------------------------------------------------------------------------


class Strangers(OpEvo):
    """Candidates are random configurations instead of children."""

    def _candidates(self, parents: Parents) -> list[int]:
        drawn = (self.space.index(self.space.sample(self._rng)) for _ in range(200))
        return [number for number in dict.fromkeys(drawn) if self._is_proposable(number)]


class WithStrangers(Strangers):
    """Candidates are children, and as many random configurations."""

    def _candidates(self, parents: Parents) -> list[int]:
        return list(dict.fromkeys([*OpEvo._candidates(self, parents), *super()._candidates(parents)]))


class WithNeighbours(OpEvo):
    """Candidates are children, and all that one step of one knob makes of the best three."""

    def _candidates(self, parents: Parents) -> list[int]:
        beside = [
            self.space.number([*vertices[:i], step, *vertices[i + 1 :]])
            for vertices, _ in parents[:3]
            for i, graph in enumerate(self._graphs)
            for step in graph.neighbours(vertices[i])
        ]
        return list(dict.fromkeys([*super()._candidates(parents), *filter(self._is_proposable, beside)]))


class WithCorners(OpEvo):
    """The first two have all knobs at their first values, and all at their last."""

    def _generate(self) -> None:
        if not self._known:
            for number in dict.fromkeys((0, self.space.size - 1)):
                if self._is_proposable(number):
                    self._enqueue(number)
        super()._generate()


class SpreadFirst(OpEvo):
    """The first configurations, and those after nothing but failures, are as far from each other as the kernel can tell."""

    def _enqueue(self, number: int | None) -> bool:
        if number is None and self._known and not self._ranking:
            drawn = dict.fromkeys(self.space.index(self.space.sample(self._rng)) for _ in range(200))
            strangers = [stranger for stranger in drawn if self._is_proposable(stranger)]
            if strangers:
                number = strangers[int(np.argmin(self._nearness(strangers)))]
        return super()._enqueue(number)

    def _nearness(self, strangers: list[int]) -> Array:
        kernel, decay = Kernel(self.space), believed(len(self.space.knobs)).decay
        points, known = (kernel.points(map(self.space.vertices, numbers)) for numbers in (strangers, self._known))
        return kernel.correlations(points, known, decay).max(axis=1)


class TwiceAsManyFirst(OpEvo):
    """16 random configurations first instead of 8."""

    def _generate(self) -> None:
        while len(self._known) < 16 and self._enqueue(None):
            pass
        if not self._queue:
            super()._generate()


# --------------------------------------------------------------------------------------------------------------------------------


def _tuner(search: type[OpEvo], screening: type[Screening], task: Task, seed: int, **options: Any) -> Tuner:
    def make(space: Space) -> OpEvo:
        made = search(space, seed=seed, surrogate="gp", **options)
        made._screening = screening(space, made._rng)
        return made

    return SearchTuner(task, make)


SCREENINGS = [
    *(SpectralWalk, WithoutGraphs, OneRate, Unlearned),
    *(LogarithmAlone, RankAlone, FitnessItself, WithoutFailures),
    *(Optimistic, Greedy, BestOfEach),
]
SEARCHES = [Strangers, WithStrangers, WithNeighbours, WithCorners, SpreadFirst, TwiceAsManyFirst]
TUNERS: dict[str, Callable[..., Tuner]] = {
    **{screening.__name__: partial(_tuner, OpEvo, screening) for screening in SCREENINGS},
    **{search.__name__: partial(_tuner, search, Screening) for search in SEARCHES},
}


def main(arguments: list[str] | None = None) -> None:
    from benchmarks import compare, tuners  # which know this module

    rows = [tuners.QWALK, "OpEvo", *TUNERS]
    compare.main(arguments, rows, champions=[tuners.QWALK], name="ablation", published_pictures=False)


if __name__ == "__main__":
    main()
