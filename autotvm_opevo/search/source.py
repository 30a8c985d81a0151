"""Results of a task, as a source for the search of another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from autotvm_opevo.search.space import Space


class Source(NamedTuple):
    """Results of a task.

    Attributes
    ----------
    space : Space
    results : mapping of int to float
        Fitness by index in that space, 0 for failures. Entries may be appended while it is used; one that changes is noticed
        with the next that is appended.
    """

    space: Space
    results: Mapping[int, float]


def representative(fitness: np.ndarray[Any, np.dtype[Any]], size: int) -> np.ndarray[Any, np.dtype[Any]]:
    """Indices of at most `size` results, best first: the best half of them as they are, the others thinned out evenly.

    >>> representative(np.array([0.0, 5.0, 3.0, 4.0, 1.0, 2.0]), 4).tolist()
    [1, 3, 2, 0]
    """
    order = np.argsort(-fitness, kind="stable")
    if len(order) <= size:
        return order
    others = np.linspace(size // 2, len(order) - 1, size - size // 2).astype(int)
    return np.concatenate([order[: size // 2], order[others]])
