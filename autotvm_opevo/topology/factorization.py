"""Tilings of a loop: prime factors that move between parts (Section 3, factorization parameters)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import permutations
from math import comb, prod
from typing import Any

from autotvm_opevo._utils.validation import as_integer
from autotvm_opevo.topology.base import LazySequence, Topology, integers

# Trial division up to here takes some 50 ms at worst, and finds every factor of a number below its square.
_LARGEST_DIVISOR = 10**6


class Factorization(Topology):
    """All ways to write `product` (C) as an ordered product of `parts` (nu) factors.

    Two are adjacent when one becomes the other by moving one prime factor from one part to another.

    Parameters
    ----------
    product : int
        C, at least 1: a loop's extent.
    parts : int
        nu, at least 1: how many nested loops it is split into.

    Raises
    ------
    ValueError
        If an argument is not a positive integer, or if `product` has two prime factors beyond 10**6.

    Examples
    --------
    >>> tiles = Factorization(8, parts=3)
    >>> len(tiles), tiles[0], tiles.index((2, 2, 2))
    (10, (1, 1, 8), 5)
    >>> tiles.neighbours((8, 1, 1))
    [(4, 2, 1), (4, 1, 2)]
    """

    def __init__(self, product: int, parts: int) -> None:
        self.product = as_integer("product", product)
        self.parts = as_integer("parts", parts)
        self._exponents = prime_factors(self.product)
        self.size = prod(_compositions(e, self.parts) for e in self._exponents.values())

    # A vertex is, prime by prime, a composition of that prime's exponent into nu exponents. Its number is the mixed radix
    # number of the compositions' lexicographic ranks.

    def __getitem__(self, index: int) -> tuple[int, ...]:
        rest = self._vertex_number(index)
        value = [1] * self.parts
        for p, exponent in reversed(self._exponents.items()):
            rest, rank = divmod(rest, _compositions(exponent, self.parts))
            for j, e in enumerate(_composition(rank, exponent, self.parts)):
                value[j] *= p**e
        return tuple(value)

    def index(self, value: Any) -> int:
        vertex = self._checked(value)
        index = 0
        for p, exponent in self._exponents.items():
            index = index * _compositions(exponent, self.parts) + _rank([_exponent(p, a) for a in vertex])
        return index

    def neighbours(self, value: Any) -> Sequence[tuple[int, ...]]:
        vertex = self._checked(value)
        sources = [(n, p) for n, a in enumerate(vertex) for p in self._exponents if a % p == 0]
        others = self.parts - 1

        def neighbour(k: int) -> tuple[int, ...]:
            (n, p), m = sources[k // others], k % others
            return _move(vertex, n, m + (m >= n), p)

        return LazySequence(len(sources) * others, neighbour)

    def coordinates(self, value: Any) -> tuple[int, ...]:
        """The exponents of every prime in every part; a step changes two of them by one."""
        vertex = self._checked(value)
        return tuple(_exponent(p, a) for p in self._exponents for a in vertex)

    def _checked(self, value: Any) -> tuple[int, ...]:
        vertex = integers(value)
        if len(vertex) != self.parts or prod(vertex) != self.product or min(vertex) < 1:
            raise self._no_vertex(value)
        return vertex

    def __repr__(self) -> str:
        return f"Factorization({self.product}, parts={self.parts})"


class Tiling:
    """The endless graph of tiles that need not divide a loop: TVM's splits with tails, 60 as [-1, 16, 4].

    A vertex is a tuple of positive integers. An edge multiplies or divides one part by a prime, or moves a prime from one part
    to another. Only `InducedSubgraph` subgraphs of it are searched.

    Parameters
    ----------
    values : iterable of tuple of int
        The tiles that will be looked at: the primes that divide any of them are those that move.

    Raises
    ------
    ValueError
        If a part is not a positive integer.

    Examples
    --------
    >>> sorted(Tiling([(4, 1), (2, 2)]).neighbours((2, 1)))
    [(1, 1), (1, 2), (2, 2), (4, 1)]
    """

    def __init__(self, values: Iterable[tuple[int, ...]]) -> None:
        parts = {as_integer("values", part) for value in values for part in value}
        self._primes = sorted({p for part in parts for p in prime_factors(part)})

    def neighbours(self, value: Any) -> Sequence[tuple[int, ...]]:
        vertex = integers(value)
        steps = []
        for p in self._primes:
            divisible = [n for n, a in enumerate(vertex) if a % p == 0]
            steps += [vertex[:n] + (a * p,) + vertex[n + 1 :] for n, a in enumerate(vertex)]
            steps += [vertex[:n] + (vertex[n] // p,) + vertex[n + 1 :] for n in divisible]
            steps += [_move(vertex, n, m, p) for n, m in permutations(range(len(vertex)), 2) if n in divisible]
        return steps

    def coordinates(self, value: Any) -> tuple[int, ...]:
        return tuple(_exponent(p, a) for p in self._primes for a in value)

    def __repr__(self) -> str:
        return f"Tiling of the primes {self._primes}"


def prime_factors(number: int) -> dict[int, int]:
    """The primes of a positive `number` with their exponents.

    >>> prime_factors(360)
    {2: 3, 3: 2, 5: 1}
    """
    exponents: dict[int, int] = {}
    rest, p = number, 2
    while p * p <= rest:
        if p > _LARGEST_DIVISOR:
            raise ValueError(f"product {number} given, allowed are those with at most one prime factor beyond {_LARGEST_DIVISOR}")
        while rest % p == 0:
            exponents[p] = exponents.get(p, 0) + 1
            rest //= p
        p += 1 if p == 2 else 2
    if rest > 1:
        exponents[rest] = 1
    return exponents


def _move(vertex: tuple[int, ...], n: int, m: int, p: int) -> tuple[int, ...]:
    """`vertex` with the prime p moved from its n-th to its m-th part."""
    parts = list(vertex)
    parts[n] //= p
    parts[m] *= p
    return tuple(parts)


def _exponent(p: int, number: int) -> int:
    e = 0
    while number % p == 0:
        number //= p
        e += 1
    return e


def _compositions(total: int, parts: int) -> int:
    """How many tuples of `parts` non-negative integers have the sum `total`."""
    return comb(total + parts - 1, parts - 1)


def _rank(composition: list[int]) -> int:
    """The number of a composition among those of its sum and length, in lexicographic order."""
    rank, total, parts = 0, sum(composition), len(composition)
    for e in composition:
        # Those that begin with less than e: all, less those that begin with e or more.
        rank += _compositions(total, parts) - _compositions(total - e, parts)
        total -= e
        parts -= 1
        if parts == 1:
            break
    return rank


def _composition(rank: int, total: int, parts: int) -> list[int]:
    """The composition of that rank: the inverse of `_rank`."""
    composition = []
    for left in range(parts, 1, -1):
        e = 0
        while rank >= (those := _compositions(total - e, left - 1)):  # as many begin with exactly e
            rank -= those
            e += 1
        composition.append(e)
        total -= e
    return [*composition, total]
