"""Properties that every topology has, implicit huge graphs, and a user-defined topology."""

import tracemalloc
from math import factorial

import numpy as np
import pytest
from graph_edges import edges, is_connected
from own_topologies import Ring
from scipy.stats import chisquare

from autotvm_opevo import random_walk
from autotvm_opevo.topology import (
    Categorical,
    Discrete,
    Factorization,
    InducedSubgraph,
    Permutation,
    Tiling,
    check_topology,
)

SMALL = [
    Factorization(1, parts=1),
    Factorization(1, parts=3),
    Factorization(7, parts=1),
    Factorization(8, parts=3),
    Factorization(60, parts=3),
    Factorization(36, parts=4),
    Factorization(97, parts=2),
    Permutation(1),
    Permutation(2),
    Permutation(4),
    Discrete([3]),
    Discrete([0, 16, 64.5, 512]),
    Categorical(["x"]),
    Categorical([False, True, 0, 1, None, "a", (1, 2), [1, 2], {"k": 1}]),
    InducedSubgraph(
        Factorization(60, parts=3), [(60, 1, 1), (30, 2, 1), (1, 1, 60), (1, 60, 1), (2, 5, 6)]
    ),
    InducedSubgraph(Tiling([(16, 4), (1, 15)]), [(16, 4), (8, 4), (15, 4), (1, 1), (3, 1)]),
]


@pytest.mark.parametrize("topology", SMALL, ids=repr)
class TestEveryTopology:
    def test_indexes_its_vertices(self, topology):
        values = list(topology)
        assert len(values) == len(topology) == topology.size
        assert [topology.index(value) for value in values] == list(range(len(topology)))
        assert all(value in topology for value in values)

    def test_passes_check_topology(self, topology):
        check_topology(topology)

    def test_is_connected(self, topology):
        assert is_connected(topology)

    def test_samples_vertices_uniformly(self, topology):
        rng = np.random.default_rng(1)
        drawn = np.bincount(
            [topology.index(topology.sample(rng)) for _ in range(50 * len(topology))],
            minlength=len(topology),
        )
        assert len(topology) == 1 or chisquare(drawn).pvalue > 1e-4

    def test_rejects_invalid_values_and_indices(self, topology):
        for value in ["invalid", (0, 0), -1, object()]:
            assert value not in topology
            with pytest.raises(ValueError, match="given, allowed are"):
                topology.neighbours(value)
        for index in (-1, len(topology)):
            with pytest.raises(IndexError, match=f"vertex index {index} given"):
                topology[index]

    def test_returns_plain_python_ints(self, topology):
        if isinstance(topology, (Factorization, Permutation)):
            for value in topology:
                assert all(type(part) is int for part in value)
                for neighbour in topology.neighbours(np.array(value)):
                    assert all(type(part) is int for part in neighbour)


def test_graphs_of_figure_1():
    """C = 8 and nu = 3; n = 3; {1, 2, 3, 4}; {a, ..., f}."""
    graphs = [Factorization(8, 3), Permutation(3), Discrete([1, 2, 3, 4]), Categorical("abcdef")]
    assert [len(graph) for graph in graphs] == [10, 6, 4, 6]
    assert [len(edges(graph)) // 2 for graph in graphs] == [18, 9, 3, 15]


class TestImplicitGraphs:
    HUGE = (
        Permutation(12),
        Permutation(40),
        Factorization(2**20 * 3**6, parts=5),
        Factorization(2**60 * 3**30, parts=12),
        Categorical(range(100_000)),
        Discrete(range(100_000)),
    )

    @pytest.mark.parametrize(
        "make", [lambda: Permutation(40), lambda: Factorization(2**60 * 3**30, parts=12)]
    )
    def test_construction_and_walks_take_kilobytes(self, make):
        rng = np.random.default_rng(0)
        tracemalloc.start()
        try:
            topology = make()
            value = topology.sample(rng)
            for _ in range(100):
                value = random_walk.sample(topology, value, 0.9, rng)
            assert tracemalloc.get_traced_memory()[1] < 1_000_000
        finally:
            tracemalloc.stop()

    def test_sizes_are_exact_beyond_64_bits(self):
        assert len(Permutation(12)) == factorial(12)
        assert Permutation(40).size == factorial(40)
        assert len(Factorization(2**20 * 3**6, parts=5)) == 2_231_460

    @pytest.mark.parametrize("topology", HUGE, ids=repr)
    def test_sampling_and_walks_need_no_enumeration(self, topology):
        rng = np.random.default_rng(0)
        for _ in range(200):
            value = topology.sample(rng)
            assert topology[topology.index(value)] == value
            assert random_walk.sample(topology, value, 0.9, rng) in topology

    def test_samples_beyond_64_bits_are_uniform(self):
        rng = np.random.default_rng(2)
        order = Permutation(25)
        first = [order.sample(rng)[0] for _ in range(2500)]
        assert chisquare(np.bincount(first, minlength=25)).pvalue > 1e-4


def test_user_defined_topology_needs_a_size_and_three_methods():
    probabilities = random_walk.distribution(Ring(12), 0, 0.5)
    assert probabilities[1] == pytest.approx(probabilities[11])
    assert is_connected(InducedSubgraph(Ring(12), [0, 5, 6, 9]))
