"""Induced subgraphs: which edges are kept, and where bridges are added."""

import numpy as np
import pytest
from graph_edges import edges, is_connected
from hypothesis import given
from hypothesis import strategies as st

from autotvm_opevo.topology import (
    Categorical,
    Discrete,
    Factorization,
    InducedSubgraph,
    Permutation,
    Tiling,
)


def test_keeps_the_edges_between_its_vertices():
    tiles = Factorization(64, parts=3)
    kept = [value for value in tiles if value[-1] <= 8]
    subgraph = InducedSubgraph(tiles, kept)
    assert list(subgraph) == kept
    for value in kept:
        assert set(subgraph.neighbours(value)) == set(tiles.neighbours(value)) & set(kept)


def test_bridges_components_at_their_closest_vertices():
    tiles = Factorization(64, parts=2)  # a path: 64x1, 32x2, ..., 1x64
    subgraph = InducedSubgraph(tiles, [(64, 1), (32, 2), (4, 16), (2, 32)])
    neighbours = [set(subgraph.neighbours(value)) for value in subgraph]
    assert neighbours == [{(32, 2)}, {(64, 1), (4, 16)}, {(32, 2), (2, 32)}, {(4, 16)}]


def test_adds_all_shortest_bridges_between_layers():
    tiles = Factorization(64, parts=3)
    subgraph = InducedSubgraph(tiles, [value for value in tiles if value[-1] in (1, 16)])
    for value in subgraph:
        if value[-1] == 16:  # 2^0 to 2^2 in the first two parts: every one of these has a bridge
            assert any(neighbour[-1] == 1 for neighbour in subgraph.neighbours(value))


@pytest.mark.properties
@given(st.data())
def test_is_connected_for_any_subset(data):
    graph = data.draw(
        st.sampled_from(
            [Factorization(720, 3), Permutation(5), Discrete(range(40)), Categorical(range(20))]
        )
    )
    indices = data.draw(st.sets(st.integers(0, len(graph) - 1), min_size=1, max_size=25))
    assert is_connected(InducedSubgraph(graph, [graph[i] for i in sorted(indices)]))


@pytest.mark.properties
@given(st.sets(st.tuples(st.integers(1, 70), st.integers(1, 70)), min_size=1, max_size=20))
def test_is_connected_for_any_tiles(tiles):
    assert is_connected(InducedSubgraph(Tiling(tiles), sorted(tiles)))


def test_bridges_hundreds_of_isolated_vertices():
    rng = np.random.default_rng(0)
    order = Permutation(9)
    assert is_connected(InducedSubgraph(order, {order.sample(rng): None for _ in range(800)}))


def test_bridges_do_not_depend_on_the_chunk_size(monkeypatch):
    tiles = Factorization(720, parts=3)
    kept = [value for value in tiles if value[-1] in (1, 9, 16, 80)]
    expected = edges(InducedSubgraph(tiles, kept))
    monkeypatch.setattr("autotvm_opevo.topology.subgraph._CHUNK_SIZE", 8)
    assert edges(InducedSubgraph(tiles, kept)) == expected


def test_accepts_lists_read_from_json():
    subgraph = InducedSubgraph(Factorization(8, parts=2), [(8, 1), (4, 2)])
    assert subgraph.index([4, 2]) == 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: InducedSubgraph(Discrete([1, 2]), []), "values must have at least one element"),
        (lambda: InducedSubgraph(Discrete([1, 2]), [1, 1]), "must be distinct, 1 given twice"),
        (lambda: InducedSubgraph(Discrete([1, 2]), [3]), "value 3 given, allowed are"),
    ],
)
def test_invalid_arguments_are_rejected(make, message):
    with pytest.raises(ValueError, match=message):
        make()
