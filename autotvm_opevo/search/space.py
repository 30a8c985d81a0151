"""The search space: the product of the knobs' topologies (Equation 1)."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import product
from math import prod
from typing import Any

import numpy as np

from autotvm_opevo.topology import Topology

Configuration = dict[str, Any]


class Space:
    """The Cartesian product of the knobs' values, with an optional constraint.

    A configuration is a dict of knob names and values. Its index is the mixed-radix number whose
    digits are the indices of the values in their topologies; the last knob varies fastest. Indices
    are Python integers, since a space may have more than 2**63 configurations.

    Parameters
    ----------
    knobs : mapping of str to Topology
        X_1 to X_mu of Equation 1. Without knobs, the space consists of one empty configuration.
    constraint : callable, optional
        Takes a configuration and returns whether it is feasible. Searches propose feasible
        configurations only.

    Attributes
    ----------
    knobs : dict of str to Topology
    constraint : callable or None
    size : int
        Number of configurations, infeasible ones included.

    Raises
    ------
    ValueError
        If a knob is not a `Topology`, or `constraint` is not callable.

    Examples
    --------
    >>> from autotvm_opevo.topology import Discrete, Factorization
    >>> space = Space({"tile": Factorization(512, parts=4), "unroll": Discrete([0, 512, 1500])})
    >>> space.size, space[0]
    (660, {'tile': (1, 1, 1, 512), 'unroll': 0})
    >>> space.index({"tile": (1, 1, 1, 512), "unroll": 512})
    1
    """

    def __init__(
        self,
        knobs: Mapping[str, Topology],
        constraint: Callable[[Configuration], bool] | None = None,
    ) -> None:
        if not isinstance(knobs, Mapping):
            raise ValueError(f"knobs must be a mapping of names to topologies, {knobs!r} given")
        self.knobs = dict(knobs)
        for name, topology in self.knobs.items():
            if not isinstance(topology, Topology):
                raise ValueError(
                    f"knob {name!r} must be a Topology (see autotvm_opevo.topology), "
                    f"{topology!r} given"
                )
        if constraint is not None and not callable(constraint):
            raise ValueError(
                f"constraint must be a function of a configuration, or None; {constraint!r} given"
            )
        self.constraint = constraint
        self.size = prod(topology.size for topology in self.knobs.values())

    def index(self, configuration: Mapping[str, Any]) -> int:
        """Return the index of a configuration, feasible or not.

        Raises
        ------
        ValueError
            If a knob is missing or unknown, or a value is not one of its knob's.
        """
        if not isinstance(configuration, Mapping) or configuration.keys() != self.knobs.keys():
            raise ValueError(
                f"a configuration must be a dict of the knobs {list(self.knobs)}, "
                f"{configuration!r} given"
            )
        vertices = []
        for name, topology in self.knobs.items():
            try:
                vertices.append(topology.index(configuration[name]))
            except ValueError as error:
                raise ValueError(f"knob {name!r}: {error}") from None
        return self.number(vertices)

    def __getitem__(self, index: int) -> Configuration:
        """Return the configuration at `index`; raises `IndexError` if it is out of range."""
        return {
            name: topology[vertex]
            for (name, topology), vertex in zip(self.knobs.items(), self.vertices(index))
        }

    def vertices(self, index: int) -> tuple[int, ...]:
        """Return the index of every knob's value in its topology, for the configuration at `index`.

        >>> from autotvm_opevo.topology import Discrete
        >>> Space({"x": Discrete([1, 2, 3]), "y": Discrete([1, 2])}).vertices(5)
        (2, 1)

        Raises
        ------
        IndexError
            If `index` is out of range.
        """
        rest = operator.index(index)
        if not 0 <= rest < self.size:
            raise IndexError(
                f"configuration index {rest} given, allowed for this space are 0 to {self.size - 1}"
            )
        vertices = []
        for topology in reversed(self.knobs.values()):
            rest, vertex = divmod(rest, topology.size)
            vertices.append(vertex)
        return tuple(reversed(vertices))

    def number(self, vertices: Iterable[int]) -> int:
        """Return the index of the configuration whose values have these indices in their
        topologies: the inverse of `vertices`.

        >>> from autotvm_opevo.topology import Discrete
        >>> Space({"x": Discrete([1, 2, 3]), "y": Discrete([1, 2])}).number([2, 1])
        5
        """
        index = 0
        for topology, vertex in zip(self.knobs.values(), vertices):
            index = index * topology.size + vertex
        return index

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[Configuration]:
        """Iterate over all configurations, infeasible ones included, by their indices."""
        for values in product(*self.knobs.values()):
            yield dict(zip(self.knobs, values))

    def neighbours(self, configuration: Configuration) -> Iterator[Configuration]:
        """Iterate over the configurations that differ in one knob, by one step on its graph,
        infeasible ones included.

        >>> from autotvm_opevo.topology import Discrete
        >>> space = Space({"x": Discrete([1, 2, 3]), "y": Discrete([1, 2])})
        >>> list(space.neighbours({"x": 1, "y": 2}))
        [{'x': 2, 'y': 2}, {'x': 1, 'y': 1}]
        """
        for name, topology in self.knobs.items():
            for value in topology.neighbours(configuration[name]):
                yield {**configuration, name: value}

    def is_feasible(self, configuration: Configuration) -> bool:
        """Return whether a configuration satisfies the constraint."""
        return self.constraint is None or bool(self.constraint(configuration))

    def sample(self, rng: np.random.Generator) -> Configuration:
        """Draw a configuration uniformly at random, infeasible ones included."""
        return {name: topology.sample(rng) for name, topology in self.knobs.items()}

    def __repr__(self) -> str:
        constraint = "" if self.constraint is None else f", constraint={self.constraint!r}"
        return f"Space({self.knobs!r}{constraint})"
