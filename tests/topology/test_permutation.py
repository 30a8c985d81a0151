"""Permutations against the definition of Section 3, by brute force."""

from itertools import combinations, permutations

import pytest

from autotvm_opevo.topology import Permutation


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_permutations_are_adjacent_if_two_positions_are_swapped(n):
    topology = Permutation(n)
    assert list(topology) == list(permutations(range(n)))
    for u in topology:
        swaps = {
            tuple(u[{i: j, j: i}.get(k, k)] for k in range(n)) for i, j in combinations(range(n), 2)
        }
        assert set(topology.neighbours(u)) == swaps


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Permutation(0), "n must be an integer of at least 1, 0 given"),
        (lambda: Permutation("abc"), "n must be an integer"),
    ],
)
def test_invalid_arguments_are_rejected(make, message):
    with pytest.raises(ValueError, match=message):
        make()
