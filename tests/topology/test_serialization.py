"""Topologies are read from JSON as they were written."""

import json

import pytest
from own_topologies import Ring

from autotvm_opevo.topology import (
    Categorical,
    Discrete,
    Factorization,
    InducedSubgraph,
    Permutation,
    Tiling,
)
from autotvm_opevo.topology.serialization import from_json, knobs_to_json, to_json

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
    read = from_json(*json.loads(json.dumps(to_json(topology))))
    assert repr(read) == repr(topology)
    assert list(read) == list(topology)
    assert [list(read.neighbours(value)) for value in read] == [
        list(topology.neighbours(value)) for value in topology
    ]


@pytest.mark.parametrize("topology", [Ring(5), InducedSubgraph(Ring(5), [0, 1])], ids=repr)
def test_a_topology_of_ones_own_is_refused(topology):
    with pytest.raises(
        TypeError, match=r"only topologies of this package can be written as JSON, Ring\(5\) given"
    ):
        to_json(topology)


def test_of_a_large_subgraph_the_whole_graph_is_written_unless_it_is_infinite():
    whole = Factorization(2**20, 3)
    small, large = ([tile for tile in whole if tile[2] <= limit] for limit in (2, 2**18))
    knobs = {
        "small": InducedSubgraph(whole, small),
        "large": InducedSubgraph(whole, large),
        "small with tail": InducedSubgraph(Tiling(TILES), TILES),
        "large with tail": InducedSubgraph(Tiling(large), large),
    }
    read = {name: from_json(*graph) for name, graph in knobs_to_json(knobs).items()}
    assert read.keys() == knobs.keys() - {"large with tail"}
    assert list(read["small"]) == small
    assert repr(read["large"]) == repr(whole)
    assert list(read["small with tail"]) == TILES


@pytest.mark.parametrize(
    "written",
    [
        ["torus", 8],
        ["tile", 0, 2],
        ["tile"],
        ["subgraph", [9], "order", 3],
        ["number", ["x"]],
    ],
)
def test_what_is_no_topology_is_refused(written):
    with pytest.raises((LookupError, TypeError, ValueError)):
        from_json(*written)
