"""Orders of loops (Section 3, permutation parameters)."""

from __future__ import annotations

from collections.abc import Sequence
from math import factorial, isqrt
from typing import Any

from autotvm_opevo._utils.validation import as_integer
from autotvm_opevo.topology.base import LazySequence, Topology, integers


class Permutation(Topology):
    """All orders of `n` things, as tuples of 0 to n-1; two are adjacent when swapping two positions makes one the other.

    Parameters
    ----------
    n : int
        At least 1: how many nested loops there are to order.

    Raises
    ------
    ValueError
        If `n` is not a positive integer.

    Examples
    --------
    >>> order = Permutation(3)
    >>> len(order), order[0], order.index((2, 1, 0))
    (6, (0, 1, 2), 5)
    >>> order.neighbours((0, 1, 2))
    [(1, 0, 2), (2, 1, 0), (0, 2, 1)]
    """

    def __init__(self, n: int) -> None:
        self.n = as_integer("n", n)
        self.size = factorial(self.n)

    def __getitem__(self, index: int) -> tuple[int, ...]:
        rest = self._vertex_number(index)
        left = list(range(self.n))
        value = []
        for k in range(self.n - 1, -1, -1):
            digit, rest = divmod(rest, factorial(k))
            value.append(left.pop(digit))
        return tuple(value)

    def index(self, value: Any) -> int:
        left = list(range(self.n))
        index = 0
        for element in self._checked(value):  # the lexicographic rank, a digit of the factorial number system each
            digit = left.index(element)
            index = index * len(left) + digit
            left.pop(digit)
        return index

    def neighbours(self, value: Any) -> Sequence[tuple[int, ...]]:
        vertex = self._checked(value)

        def neighbour(k: int) -> tuple[int, ...]:
            j = (1 + isqrt(8 * k + 1)) // 2  # k counts the pairs i < j: (0, 1), (0, 2), (1, 2), (0, 3), ...
            i = k - j * (j - 1) // 2
            swapped = list(vertex)
            swapped[i], swapped[j] = swapped[j], swapped[i]
            return tuple(swapped)

        return LazySequence(self.n * (self.n - 1) // 2, neighbour)

    def coordinates(self, value: Any) -> tuple[int, ...]:
        """The permutation's matrix row by row: the L1 distance is twice the number of positions that differ."""
        return tuple(int(element == column) for element in self._checked(value) for column in range(self.n))

    def _checked(self, value: Any) -> tuple[int, ...]:
        vertex = integers(value)
        if len(vertex) != self.n or set(vertex) != set(range(self.n)):
            raise self._no_vertex(value)
        return vertex

    def __repr__(self) -> str:
        return f"Permutation({self.n})"
