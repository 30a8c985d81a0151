"""G-BFS (Zhang et al. 2019): greedy best-first search on the graph of tilings."""

from __future__ import annotations

from autotvm_opevo._utils.validation import as_integer
from autotvm_opevo.baselines.untiled import factorizations, untiled
from autotvm_opevo.search.base import Search
from autotvm_opevo.search.space import Space


class GBFS(Search):
    """Expand the best configuration that was not expanded yet: evaluate some of its neighbours, chosen at random.

    The first is the configuration without multi-level tiling. Beyond what is published: neighbours are drawn among those that are
    new, what failed is never expanded, and where nothing is left to expand a random configuration goes on.

    Parameters
    ----------
    space : Space
        Of factorizations only.
    sample_size : int
        rho: how many neighbours of a configuration are evaluated.
    seed : int, optional
        As for every `Search`.

    Raises
    ------
    ValueError
        If the space has a knob that is no `Factorization`, or an argument is not what it should be.

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

    _generational = True

    def __init__(self, space: Space, sample_size: int = 5, seed: int | None = None) -> None:
        super().__init__(space, seed)
        factorizations(space, "G-BFS")
        self.sample_size = as_integer("sample_size", sample_size)
        self._expanded: set[int] = set()

    def _generate(self) -> None:
        if not self._known:
            self._enqueue(self._proposable(untiled(self.space)))
            return
        for _, number in self._ranking:  # the priority queue: the best first
            if number not in self._expanded:
                self._expanded.add(number)
                around = [self._proposable(neighbour) for neighbour in self.space.neighbours(self.space[number])]
                new = [neighbour for neighbour in around if neighbour is not None]
                for i in self._rng.permutation(len(new))[: self.sample_size]:
                    self._enqueue(new[i])
                if new:
                    return
        self._enqueue(None)
