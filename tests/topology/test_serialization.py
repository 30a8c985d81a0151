"""Topologies are read from JSON as they were written."""

import json

import pytest
from own_topologies import Ring

from autotvm_opevo.topology import (
    Categorical,
    Discrete,
    Factorization,
    Graph,
    InducedSubgraph,
    Permutation,
    Tiling,
    check_topology,
)
from autotvm_opevo.topology.serialization import KINDS, from_json

TILES = [(1, 4), (4, 4), (7, 2), (12, 1)]


@pytest.mark.parametrize(
    "topology",
    [
        Factorization(360, 3),
        Permutation(4),
        Discrete([-2, 0, 0.5]),
        Categorical(["null", '"unroll"']),
        Categorical([None, True, 1, "1"]),
        InducedSubgraph(Tiling(TILES), TILES),
        InducedSubgraph(Factorization(64, 2), [(64, 1), (8, 8), (4, 16)]),
        InducedSubgraph(InducedSubgraph(Permutation(3), [(0, 1, 2), (0, 2, 1)]), [(0, 2, 1)]),
    ],
    ids=repr,
)
def test_what_is_written_is_read(topology):
    read = from_json(*json.loads(json.dumps(topology.to_json())))
    assert repr(read) == repr(topology)
    assert list(read) == list(topology)
    assert [list(read.neighbours(value)) for value in read] == [
        list(topology.neighbours(value)) for value in topology
    ]


@pytest.mark.parametrize("topology", [Ring(5), InducedSubgraph(Ring(12), [0, 1, 5, 6])], ids=repr)
def test_a_topology_of_ones_own_is_read_as_a_graph_with_its_vertices_and_edges(topology):
    read = from_json(*json.loads(json.dumps(topology.to_json())))
    assert list(read) == list(topology)
    assert [list(read.neighbours(value)) for value in read] == [
        list(topology.neighbours(value)) for value in topology
    ]
    check_topology(read)


def test_a_kind_of_ones_own_can_be_added(monkeypatch):
    class Hours(Ring):
        def to_json(self):
            return ["hours", self.size]

    monkeypatch.setitem(KINDS, "hours", Hours)
    assert repr(from_json(*Hours(12).to_json())) == "Hours(12)"


@pytest.mark.parametrize("topology", [Ring(201), InducedSubgraph(Ring(10**12), [0, 1])], ids=repr)
def test_a_large_topology_of_ones_own_needs_a_method(topology):
    with pytest.raises(
        TypeError, match=r"Ring\(\d+\) cannot be written as JSON: its class needs a `to_json`"
    ):
        topology.to_json()


def test_an_infinite_graph_of_ones_own_needs_a_method():
    class Integers(Graph):
        def neighbours(self, value):
            return [value - 1, value + 1]

        def coordinates(self, value):
            return (value,)

    topology = InducedSubgraph(Integers(), [-1, 0, 1, 5])
    assert list(topology.neighbours(1)) == [0, 5]
    with pytest.raises(TypeError, match="cannot be written as JSON: its class has no `to_json`"):
        topology.to_json()


@pytest.mark.parametrize(
    "written",
    [
        ["torus", 8],
        ["tile", 0, 2],
        ["tile"],
        ["subgraph", [9], "order", 3],
        ["number", ["x"]],
        ["graph", [1, 2], [[1]]],
        ["graph", [1, 2], [[1], [2]]],
        ["graph", [1, 1], [[1], [0]]],
    ],
)
def test_what_is_no_topology_is_refused(written):
    with pytest.raises((LookupError, TypeError, ValueError)):
        from_json(*written)
