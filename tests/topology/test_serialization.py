"""Topologies are read from JSON as they were written."""

import json

import pytest

from autotvm_opevo.topology import Categorical, Discrete, Factorization, InducedSubgraph, Permutation, Tiling, Topology
from autotvm_opevo.topology.serialization import as_json, from_json

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
    read = from_json(*json.loads(json.dumps(as_json(topology))))
    assert repr(read) == repr(topology)
    assert list(read) == list(topology)
    assert [list(read.neighbours(value)) for value in read] == [list(topology.neighbours(value)) for value in topology]


def test_other_topologies_are_refused():
    class Line(Topology):
        size = 3

        def __getitem__(self, index):
            return index

        def index(self, value):
            return value

        def neighbours(self, value):
            return [i for i in (value - 1, value + 1) if 0 <= i < 3]

    for topology in (Line(), InducedSubgraph(Line(), [0, 1])):
        with pytest.raises(TypeError, match="must be one of this package"):
            as_json(topology)


@pytest.mark.parametrize("written", [["torus", 8], ["tile", 0, 2], ["tile"], ["subgraph", [9], "order", 3], ["number", ["x"]]])
def test_what_is_no_topology_is_refused(written):
    with pytest.raises((LookupError, TypeError, ValueError)):
        from_json(*written)
