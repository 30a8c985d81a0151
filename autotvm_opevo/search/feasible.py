"""Feasible configurations where a constraint leaves so few that random draws find none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from autotvm_opevo.search.space import Configuration, Space

# Number of draws, and how many are made at a time; where a knob's value is among its vertices, in
# 2**53rds.
_DRAWS, _CHUNK, _LEVELS = 200_000, 1000, 2**53
# Configurations that are looked at before walks are given up, and values of a knob that can make up
# for a step of another.
_MAX_VISITS, _MAX_VALUES = 50_000, 1000
# Probability that a walk goes on from where it has found nothing.
_Q = 0.5


def likely_draws(space: Space, rng: np.random.Generator) -> Iterator[Configuration]:
    """Configurations of which more satisfy usual constraints than of random ones; 200,000, a
    quarter of them random.

    Limits, and sums and products that are given, are met where most knobs have their first or last
    value, on one side or on both. Orders, such as x < y < z, are met where values rise or fall from
    knob to knob.
    """
    values = [list(knob) if knob.size <= _MAX_VALUES else knob for knob in space.knobs.values()]
    sizes, last = [knob.size for knob in space.knobs.values()], _LEVELS - 1
    for _ in range(_DRAWS // _CHUNK):
        levels = rng.integers(_LEVELS, size=(_CHUNK, len(values)))
        _, one_side, both_sides, ordered = np.split(levels, 4)
        for rows, sides in ((one_side, 1), (both_sides, len(values))):
            at_end = rng.random(rows.shape) < rng.random((len(rows), 1))
            rows[:] = np.where(at_end, last * rng.integers(2, size=(len(rows), sides)), rows)
        ordered.sort(axis=1)
        ordered[::2] = ordered[::2, ::-1]
        for row in levels.tolist():
            yield {
                name: known[size * at // _LEVELS]
                for name, known, size, at in zip(space.knobs, values, sizes, row)
            }


class FeasibleWalks:
    """Walks from some configurations to feasible ones near them, through infeasible ones.

    One knob takes a step on its graph. If that is infeasible, another takes each value that could
    make up for it, as one part of a product is multiplied and another divided; of a large graph,
    each neighbour. If none does, the walk goes on from the step, or ends, and another begins.
    """

    def __init__(self, space: Space, rng: np.random.Generator) -> None:
        self._space, self._rng = space, rng
        self._values = {
            name: list(knob) for name, knob in space.knobs.items() if knob.size <= _MAX_VALUES
        }

    def walk(
        self, starts: Sequence[int], find: Callable[[Configuration], int | None]
    ) -> Iterator[int]:
        """Yield where walks, each from a random one of `starts`, end, by number, until 50,000
        configurations have been looked at. `find` returns the number of a configuration at which a
        walk ends, and None for any other.
        """
        visits = 0
        while starts and visits < _MAX_VISITS:
            configuration, goes_on = self._space[starts[int(self._rng.integers(len(starts)))]], True
            while goes_on and visits < _MAX_VISITS:
                goes_on = self._rng.random() < _Q
                for visited in self._step(configuration):
                    visits += 1
                    number = find(visited)
                    if number is not None:
                        yield number
                        goes_on = False
                        break

    def _step(self, configuration: Configuration) -> Iterator[Configuration]:
        """Take a step, and look at what differs from it in one other knob."""
        names = list(configuration)
        name, *others = (names[i] for i in self._rng.permutation(len(names)))
        steps = self._space.knobs[name].neighbours(configuration[name])
        if len(steps):  # a knob with one value takes none
            configuration[name] = steps[int(self._rng.integers(len(steps)))]
        yield dict(configuration)
        for other in others[:1]:
            values = self._values.get(other) or self._space.knobs[other].neighbours(
                configuration[other]
            )
            for i in self._rng.permutation(len(values))[:_MAX_VALUES]:
                yield {**configuration, other: values[int(i)]}
