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
from autotvm_opevo.topology.serialization import from_json, to_json

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


def test_a_topology_of_ones_own_is_refused():
    with pytest.raises(
        TypeError, match=r"only topologies of this package can be written as JSON, Ring\(5\) given"
    ):
        to_json(Ring(5))


@pytest.mark.parametrize(
    "written",
    [
        ["torus", 8],
        ["tile", 0, 2],
        ["tile"],
        ["number", ["x"]],
    ],
)
def test_what_is_no_topology_is_refused(written):
    with pytest.raises((LookupError, TypeError, ValueError)):
        from_json(*written)
