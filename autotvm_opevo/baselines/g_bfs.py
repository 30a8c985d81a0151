"""G-BFS (Zhang et al. 2019): greedy best-first search on the graph of tilings."""

from __future__ import annotations

from collections.abc import Iterator

from autotvm_opevo._utils.validation import as_integer
from autotvm_opevo.baselines.factorizations import require_factorizations, untiled
from autotvm_opevo.search.base import Search
from autotvm_opevo.search.space import Space


class GBFS(Search):
    """Greedy best-first search: expand the best unexpanded configuration by evaluating a random
    sample of its neighbours.

    It starts from the configuration without multi-level tiling. Unlike the published version, it
    samples only new neighbours, never expands a failed configuration, and continues from a random
    configuration when there is nothing left to expand.

    Parameters
    ----------
    space : Space
        All knobs must be factorizations.
    sample_size : int
        rho, the maximum number of neighbours to evaluate per expansion.
    seed : int, optional
        See `Search`.

    Raises
    ------
    ValueError
        If a knob is not a `Factorization`, or an argument is invalid.

    Examples
    --------
    >>> from autotvm_opevo.topology import Factorization
    >>> search = GBFS(Space({"tile": Factorization(64, parts=2)}), seed=0)
    >>> search.ask(8)
    [{'tile': (64, 1)}]
    >>> search.tell(_, [1.0])
    >>> search.ask(8)
    [{'tile': (32, 2)}]
    """

    generational = True

    def __init__(self, space: Space, sample_size: int = 5, seed: int | None = None) -> None:
        super().__init__(space, seed)
        require_factorizations(space, "G-BFS")
        self.sample_size = as_integer("sample_size", sample_size)
        self._expanded: set[int] = set()

    def _propose(self, n: int) -> Iterator[int | None]:
        if not self._known:
            yield self._proposable(untiled(self.space))
            return
        for _, number in self._ranking:  # the priority queue, best first
            if number not in self._expanded:
                self._expanded.add(number)
                neighbours = [
                    self._proposable(neighbour)
                    for neighbour in self.space.neighbours(self.space[number])
                ]
                new = [neighbour for neighbour in neighbours if neighbour is not None]
                yield from [new[i] for i in self._rng.permutation(len(new))[: self.sample_size]]
                if new:
                    return
        yield None
