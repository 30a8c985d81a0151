"""Factorizations against the definition of Section 3, by brute force, and tilings."""

from itertools import permutations, product
from math import prod

import pytest

from autotvm_opevo.topology import Factorization, Tiling


@pytest.mark.parametrize(("c", "nu"), [(1, 2), (8, 3), (60, 3), (36, 4), (128, 2), (97, 3)])
def test_factorizations_are_adjacent_if_a_prime_moves(c, nu):
    divisors = [d for d in range(1, c + 1) if c % d == 0]
    vertices = [v for v in product(divisors, repeat=nu) if prod(v) == c]
    primes = [p for p in divisors if p > 1 and all(p % d for d in range(2, p))]

    def adjacent(u, v):
        """g(u, v) as the paper writes it: u_m = v_m z and u_n = v_n / z for a prime z, all else
        equal.
        """
        moves = ((m, n, z) for m, n in permutations(range(nu), 2) for z in primes)
        return any(
            v[n] % z == 0
            and u == tuple(a * z if j == m else a // z if j == n else a for j, a in enumerate(v))
            for m, n, z in moves
        )

    topology = Factorization(c, parts=nu)
    assert set(topology) == set(vertices)
    for u in vertices:
        assert set(topology.neighbours(u)) == {v for v in vertices if adjacent(u, v)}


def test_tilings_multiply_divide_or_move_a_prime():
    """60 as [-1, 16, 4]."""
    values = [(1, 1), (2, 1), (4, 1), (4, 4), (16, 4), (8, 8), (15, 4), (5, 4)]
    neighbours = Tiling(values).neighbours((16, 4))
    assert set(neighbours) == {
        *((32, 4), (48, 4), (80, 4), (16, 8), (16, 12), (16, 20)),
        *((8, 4), (16, 2)),
        *((8, 8), (32, 2)),
    }


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Factorization(0, 2), "product must be an integer of at least 1, 0 given"),
        (lambda: Factorization(8, 0), "parts must be an integer of at least 1, 0 given"),
        (lambda: Factorization(8.5, 2), "product must be an integer of at least 1, 8.5 given"),
        (lambda: Factorization(True, 2), "product must be an integer"),
        (
            lambda: Factorization((10**9 + 7) * (10**9 + 9), 2),
            "an extent must have at most one prime factor above 1000000",
        ),
        (lambda: Tiling([(4, 0)]), "values must be an integer of at least 1, 0 given"),
    ],
)
def test_invalid_arguments_are_rejected(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("value", [(0, 1), (4,), (4, 1, 1), (-2, 2), "ab"])
@pytest.mark.parametrize("method", ["neighbours", "coordinates"])
def test_what_is_no_tile_is_not_a_vertex_of_a_tiling(value, method):
    with pytest.raises(ValueError, match="is not a vertex of"):
        getattr(Tiling([(4, 1), (2, 2)]), method)(value)
