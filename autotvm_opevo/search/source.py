"""Results of a task, as a source for the search of another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from autotvm_opevo.search.space import Space

T = TypeVar("T")


class Source(NamedTuple):
    """Results of a task.

    Attributes
    ----------
    space : Space
    results : mapping of int to float
        Fitness by index in that space, 0 for failures. Entries may be appended while it is used; one that changes is noticed
        with the next that is appended.
    origin : str
        Where they come from, for reports, such as a file; empty if unknown.
    """

    space: Space
    results: Mapping[int, float]
    origin: str = ""


def count_origins(sources: Iterable[Source]) -> dict[str, int]:
    """How many of the sources come from where, in the order of their first one.

    >>> count_origins([Source(Space({}), {}, "a.json"), Source(Space({}), {}, "b.json"), Source(Space({}), {}, "a.json")])
    {'a.json': 2, 'b.json': 1}
    """
    return dict(Counter(source.origin for source in sources))


def thin_out(ranked: Sequence[T], size: int) -> list[T]:
    """At most `size` results: the best half as they are, the others thinned out, since a model needs an order of them, too.

    Parameters
    ----------
    ranked : sequence
        The best first.
    size : int

    Examples
    --------
    >>> thin_out(range(100), 6)
    [0, 1, 2, 3, 51, 99]
    """
    best = size // 2
    if len(ranked) <= size:
        return list(ranked)
    return [*ranked[:best], *(ranked[i] for i in np.linspace(best, len(ranked) - 1, size - best).astype(int))]
