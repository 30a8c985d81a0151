"""Loop orders (Section 3, permutation parameters)."""

from __future__ import annotations

from collections.abc import Sequence
from math import factorial, isqrt
from typing import Any

from autotvm_opevo._utils.validation import as_integer
from autotvm_opevo.topology.base import LazySequence, Topology, int_tuple


class Permutation(Topology):
    """All permutations of ``range(n)``; two are adjacent if they differ by a swap of two positions.

    Parameters
    ----------
    n : int
        Number of loops to order, at least 1.

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

    # The index of a permutation is its lexicographic rank, whose digits in the factorial number
    # system are its Lehmer code.

    def __getitem__(self, index: int) -> tuple[int, ...]:
        rank = self._check_index(index)
        remaining = list(range(self.n))
        value = []
        for k in range(self.n - 1, -1, -1):
            digit, rank = divmod(rank, factorial(k))
            value.append(remaining.pop(digit))
        return tuple(value)

    def index(self, value: Any) -> int:
        remaining = list(range(self.n))
        rank = 0
        for element in self._validate(value):
            digit = remaining.index(element)
            rank = rank * len(remaining) + digit
            remaining.pop(digit)
        return rank

    def neighbours(self, value: Any) -> Sequence[tuple[int, ...]]:
        vertex = self._validate(value)

        def neighbour(k: int) -> tuple[int, ...]:
            # k enumerates the pairs i < j: (0, 1), (0, 2), (1, 2), (0, 3), ...
            j = (1 + isqrt(8 * k + 1)) // 2
            i = k - j * (j - 1) // 2
            swapped = list(vertex)
            swapped[i], swapped[j] = swapped[j], swapped[i]
            return tuple(swapped)

        return LazySequence(self.n * (self.n - 1) // 2, neighbour)

    def coordinates(self, value: Any) -> tuple[int, ...]:
        """Return the flattened permutation matrix: its L1 distance counts each difference twice."""
        return tuple(
            int(element == column) for element in self._validate(value) for column in range(self.n)
        )

    def _validate(self, value: Any) -> tuple[int, ...]:
        vertex = int_tuple(value)
        if len(vertex) != self.n or set(vertex) != set(range(self.n)):
            raise self._invalid_value(value)
        return vertex

    def __repr__(self) -> str:
        return f"Permutation({self.n})"
