"""Loop tilings (Section 3): prime factors move between the parts of a product."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import permutations
from math import comb, prod
from typing import Any

import numpy as np

from autotvm_opevo._utils.validation import as_integer
from autotvm_opevo.topology.base import Encoder, Graph, LazySequence, Topology, int_tuple

# Trial division up to this limit takes about 50 ms at worst, and fully factors every number below
# its square.
_MAX_DIVISOR = 10**6
# A search decodes the same few values again and again: so many are kept.
_MAX_CACHED = 1000


class Factorization(Topology):
    """All ways to write `product` (C) as an ordered product of `parts` (nu) positive integers.

    Two are adjacent if moving one prime factor from one part to another turns one into the other.

    Parameters
    ----------
    product : int
        C, the extent of the loop, at least 1.
    parts : int
        nu, the number of nested loops it is split into, at least 1.

    Raises
    ------
    ValueError
        If an argument is not a positive integer, or if `product` has two prime factors above 10**6.

    Examples
    --------
    >>> tiles = Factorization(8, parts=3)
    >>> len(tiles), tiles[0], tiles.index((2, 2, 2))
    (10, (1, 1, 8), 5)
    >>> tiles.neighbours((8, 1, 1))
    [(4, 2, 1), (4, 1, 2)]
    """

    def __init__(self, product: int, parts: int) -> None:
        self.product = self.extent = as_integer("product", product)
        self.parts = as_integer("parts", parts)
        self._exponents = prime_factors(self.product)
        self.size = prod(_num_compositions(e, self.parts) for e in self._exponents.values())
        self._values: dict[int, tuple[int, ...]] = {}
        self._indices: dict[tuple[int, ...], int] = {}

    # For every prime of C, a vertex splits the prime's exponent among the nu parts: a weak
    # composition of the exponent. The index is the mixed-radix number whose digits are the
    # lexicographic ranks of these compositions.

    def __getitem__(self, index: int) -> tuple[int, ...]:
        index = rest = self._check_index(index)
        if index in self._values:
            return self._values[index]
        parts = [1] * self.parts
        for p, exponent in reversed(self._exponents.items()):
            rest, rank = divmod(rest, _num_compositions(exponent, self.parts))
            for j, e in enumerate(_unrank(rank, exponent, self.parts)):
                parts[j] *= p**e
        value = tuple(parts)
        if len(self._values) < _MAX_CACHED:
            self._values[index] = value
        return value

    def index(self, value: Any) -> int:
        vertex = int_tuple(value)
        if vertex in self._indices:
            return self._indices[vertex]
        self._validate(value)
        index = 0
        for p, exponent in self._exponents.items():
            index = index * _num_compositions(exponent, self.parts) + _rank(
                [_exponent(p, a) for a in vertex]
            )
        if len(self._indices) < _MAX_CACHED:
            self._indices[vertex] = index
        return index

    def neighbours(self, value: Any) -> Sequence[tuple[int, ...]]:
        vertex = self._validate(value)
        sources = [(n, p) for n, a in enumerate(vertex) for p in self._exponents if a % p == 0]
        others = self.parts - 1

        def neighbour(k: int) -> tuple[int, ...]:
            (n, p), m = sources[k // others], k % others
            return move_factor(vertex, n, m + (m >= n), p)

        return LazySequence(len(sources) * others, neighbour)

    def coordinates(self, value: Any) -> tuple[int, ...]:
        """Return the exponent of every prime in every part; a step changes two of them by one."""
        vertex = self._validate(value)
        return tuple(_exponent(p, a) for p in self._exponents for a in vertex)

    def is_comparable(self, other: Graph) -> bool:
        """Return whether `other` has as many parts, of whatever product."""
        whole = other.whole
        return isinstance(whole, Factorization) and whole.parts == self.parts

    def encoder(self, peers: Sequence[Graph] = ()) -> Encoder:
        """See `Graph.encoder`; with other products, logarithms of the parts, in steps that move a
        factor of two.
        """
        if any(peer.extent != self.extent for peer in peers):
            return lambda value: self.log_parts(value) / 2
        return super().encoder()

    def log_parts(self, value: Any) -> Any:
        """Return log2 of each part, as if the first one, the outermost loop, made up for another
        product.
        """
        return np.log2(np.array([value[0] * (self.product / prod(value)), *value[1:]], dtype=float))

    def _validate(self, value: Any) -> tuple[int, ...]:
        vertex = int_tuple(value)
        if len(vertex) != self.parts or prod(vertex) != self.product or min(vertex) < 1:
            raise self._invalid_value(value)
        return vertex

    def __repr__(self) -> str:
        return f"Factorization({self.product}, parts={self.parts})"


class Tiling(Graph):
    """The infinite graph of tile sizes that need not divide the loop, such as TVM's splits with
    tails: 60 as [-1, 16, 4].

    A vertex is a tuple of positive integers. An edge multiplies or divides one part by a prime, or
    moves a prime factor from one part to another. A search space uses an `InducedSubgraph` of it.

    Parameters
    ----------
    values : iterable of tuple of int
        The tiles of interest; their prime factors are the ones that edges move.

    Raises
    ------
    ValueError
        If a part is not a positive integer, or has two prime factors above 10**6.

    Examples
    --------
    >>> sorted(Tiling([(4, 1), (2, 2)]).neighbours((2, 1)))
    [(1, 1), (1, 2), (2, 2), (4, 1)]
    """

    def __init__(self, values: Iterable[tuple[int, ...]]) -> None:
        tiles = list(values)
        self._parts = len(tiles[0]) if tiles else 0
        parts = {as_integer("values", part) for value in tiles for part in value}
        self._primes = sorted({p for part in parts for p in prime_factors(part)})

    def neighbours(self, value: Any) -> Sequence[tuple[int, ...]]:
        vertex = self._validate(value)
        neighbours = []
        for p in self._primes:
            divisible = [n for n, a in enumerate(vertex) if a % p == 0]
            neighbours += [vertex[:n] + (a * p,) + vertex[n + 1 :] for n, a in enumerate(vertex)]
            neighbours += [vertex[:n] + (vertex[n] // p,) + vertex[n + 1 :] for n in divisible]
            neighbours += [
                move_factor(vertex, n, m, p)
                for n, m in permutations(range(len(vertex)), 2)
                if n in divisible
            ]
        return neighbours

    def coordinates(self, value: Any) -> tuple[int, ...]:
        """Return the exponent of every prime in every part; a step changes one or two of them by
        one.
        """
        vertex = self._validate(value)
        return tuple(_exponent(p, a) for p in self._primes for a in vertex)

    def is_comparable(self, other: Graph) -> bool:
        """Return whether `other` has as many parts, of whatever primes."""
        whole = other.whole
        return isinstance(whole, Tiling) and whole._parts == self._parts

    def encoder(self, peers: Sequence[Graph] = ()) -> Encoder:
        """See `Graph.encoder`; with other primes, logarithms of the parts, in steps that double
        one.
        """
        if any(repr(peer.whole) != repr(self) for peer in peers):
            return lambda value: np.log2(np.array(value, dtype=float))
        return super().encoder()

    def _validate(self, value: Any) -> tuple[int, ...]:
        vertex = int_tuple(value)
        if len(vertex) != self._parts or min(vertex, default=0) < 1:
            raise ValueError(
                f"{value!r} is not a vertex of {self!r}: it must have {self._parts} positive "
                "integers"
            )
        return vertex

    def __repr__(self) -> str:
        return f"Tiling(primes={self._primes})"


def prime_factors(number: int) -> dict[int, int]:
    """The prime factorization of a positive integer, as exponents by prime.

    >>> prime_factors(360)
    {2: 3, 3: 2, 5: 1}
    """
    exponents: dict[int, int] = {}
    rest, p = number, 2
    while p * p <= rest:
        if p > _MAX_DIVISOR:
            raise ValueError(
                f"an extent must have at most one prime factor above {_MAX_DIVISOR}, {number} given"
            )
        while rest % p == 0:
            exponents[p] = exponents.get(p, 0) + 1
            rest //= p
        p += 1 if p == 2 else 2
    if rest > 1:
        exponents[rest] = 1
    return exponents


def move_factor(vertex: tuple[int, ...], n: int, m: int, p: int) -> tuple[int, ...]:
    """Move the prime factor `p` from the n-th to the m-th part of `vertex`."""
    parts = list(vertex)
    parts[n] //= p
    parts[m] *= p
    return tuple(parts)


def _exponent(p: int, number: int) -> int:
    """The exponent of the prime `p` in `number`."""
    e = 0
    while number % p == 0:
        number //= p
        e += 1
    return e


def _num_compositions(total: int, parts: int) -> int:
    """The number of tuples of `parts` non-negative integers whose sum is `total`."""
    return comb(total + parts - 1, parts - 1)


def _rank(composition: list[int]) -> int:
    """The lexicographic rank of a weak composition among those of the same sum and length."""
    rank, total, parts = 0, sum(composition), len(composition)
    for e in composition:
        # The compositions whose first element is less than e: all of them, minus those whose first
        # element is at least e.
        rank += _num_compositions(total, parts) - _num_compositions(total - e, parts)
        total -= e
        parts -= 1
        if parts == 1:
            break
    return rank


def _unrank(rank: int, total: int, parts: int) -> list[int]:
    """The weak composition of a given rank, the inverse of `_rank`."""
    composition = []
    for remaining in range(parts, 1, -1):
        e = 0
        # those whose first element is e
        while rank >= (count := _num_compositions(total - e, remaining - 1)):
            rank -= count
            e += 1
        composition.append(e)
        total -= e
    return [*composition, total]
