"""Results of a task, as a source for the search of another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

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
