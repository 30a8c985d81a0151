"""G-BFS as Zhang et al. describe it."""

from collections import Counter

import pytest
from scipy.stats import chisquare

from autotvm_opevo import Space
from autotvm_opevo.baselines import GBFS
from autotvm_opevo.topology import Categorical, Factorization, InducedSubgraph


def space():
    return Space({"y": Factorization(512, 4), "x": Factorization(96, 3)})


def adjacent(space, first, second):
    return second in list(space.neighbours(first))


def test_expands_the_best_first_and_evaluates_rho_of_its_neighbours():
    search = GBFS(space(), seed=0)
    start = search.ask(8)
    search.tell(start, [1.0])
    first = search.ask(8)
    assert len(first) == 5
    assert all(adjacent(search.space, start[0], c) for c in first)
    search.tell(first, [2.0, 5.0, 3.0, 0.5, 4.0])
    assert all(adjacent(search.space, first[1], c) for c in search.ask(8))


def test_does_not_expand_the_best_twice():
    search = GBFS(space(), sample_size=2, seed=0)
    start = search.ask(1)
    search.tell(start, [9.0])
    first = search.ask(8)
    search.tell(first, [2.0, 1.0])
    second = search.ask(8)
    assert all(adjacent(search.space, first[0], c) for c in second)


def test_does_not_expand_failures():
    search = GBFS(space(), sample_size=3, seed=0)
    search.tell(search.ask(1), [1.0])
    first = search.ask(8)
    search.tell(first, [0.0, 0.0, 0.5])
    assert all(adjacent(search.space, first[2], c) for c in search.ask(8))


def test_samples_neighbours_uniformly():
    small = Space({"y": Factorization(32, 4), "x": Factorization(9, 3)})
    drawn = Counter()
    for seed in range(150):
        search = GBFS(small, sample_size=1, seed=seed)
        search.tell(search.ask(1), [1.0])
        drawn[small.index(search.ask(8)[0])] += 1
    assert len(drawn) == 5  # 3 targets for a factor of 2, and 2 for a factor of 3
    assert chisquare(list(drawn.values())).pvalue > 1e-4


@pytest.mark.parametrize(
    ("knobs", "reason"),
    [
        ({"y": Factorization(8, 2), "switch": Categorical([0, 1])}, "'switch' is a Categorical"),
        ({"y": InducedSubgraph(Factorization(8, 2), [(1, 8), (8, 1)])}, "'y' is a InducedSubgraph"),
        ({}, "no knobs"),
    ],
)
def test_other_spaces_are_rejected_with_the_reason(knobs, reason):
    with pytest.raises(ValueError, match=f"G-BFS only moves prime factors .*{reason} given"):
        GBFS(Space(knobs))


@pytest.mark.parametrize("sample_size", [0, 2.5, "5"])
def test_invalid_sample_sizes_are_rejected(sample_size):
    with pytest.raises(ValueError, match="sample_size must be an integer"):
        GBFS(space(), sample_size=sample_size)
