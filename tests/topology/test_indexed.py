"""`IndexedGraph`: the same graph over vertex indices."""

import pytest

from autotvm_opevo.topology import Categorical, Factorization
from autotvm_opevo.topology.indexed import IndexedGraph


@pytest.mark.parametrize("topology", [Factorization(60, parts=3), Categorical(range(1001))], ids=["cached", "not cached"])
def test_neighbours_are_those_of_the_topology(topology):
    graph = IndexedGraph(topology)
    assert graph.size == topology.size
    for vertex in (0, 1, topology.size // 2, topology.size - 1):
        expected = [topology.index(value) for value in topology.neighbours(topology[vertex])]
        for _ in range(2):
            assert list(graph.neighbours(vertex)) == expected


def test_only_small_graphs_are_cached():
    small, large = IndexedGraph(Categorical(range(1000))), IndexedGraph(Categorical(range(1001)))
    assert small.neighbours(3) is small.neighbours(3)
    assert large.neighbours(3) is not large.neighbours(3)
