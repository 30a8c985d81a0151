"""Graphs of knobs: vertices and layout."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from topologies import TOPOLOGIES

from autotvm_opevo.reporting.knob_graphs import MAX_VERTICES, Knob, format_value, positions
from autotvm_opevo.topology import Factorization, InducedSubgraph, Tiling


@pytest.mark.parametrize("topology", TOPOLOGIES, ids=repr)
def test_vertices_have_different_positions(topology):
    xy = positions(topology)
    assert xy.shape == (len(topology), 2)
    assert np.abs(xy).max() <= 1 + 1e-9
    assert min(np.hypot(*(a - b)) for a, b in combinations(xy, 2)) > 0.01


def test_extents_beyond_64_bits_have_positions():
    knob = Knob("tile", "inner tile", latencies={(10**20,): [0.1], (1,): [0.2]})
    assert np.isfinite(positions(knob.topology)).all()


def test_three_parts_form_the_papers_triangle():
    """All edges of the lattice have the same length."""
    topology = Factorization(8, parts=3)
    xy = positions(topology)
    edges = list(Knob("tile", "tile", full=topology).edges)
    assert len(edges) == 18
    assert np.ptp([np.hypot(*(xy[i] - xy[j])) for i, j in edges]) < 1e-9


def test_two_parts_form_a_grid_of_primes():
    """12 = 2 x 2 x 3: three columns of two, and no overlapping edges."""
    topology = Factorization(12, parts=2)
    xy = positions(topology)
    assert (len({round(x, 9) for x, _ in xy}), len({round(y, 9) for _, y in xy})) == (3, 2)
    edges = [xy[j] - xy[i] for i, j in Knob("tile", "tile", full=topology).edges]
    assert len(edges) == 7
    assert all(np.count_nonzero(np.abs(edge) > 1e-9) == 1 for edge in edges)


def test_inner_tiles_have_the_positions_of_complete_tiles():
    full = Factorization(64, parts=3)
    inner = [tile[1:] for tile in full]
    assert np.allclose(positions(full), positions(InducedSubgraph(Tiling(inner), inner)))


@given(st.sampled_from(TOPOLOGIES[:5]), st.data())
def test_a_graph_has_all_tried_values(topology, data):
    tried = data.draw(
        st.lists(st.sampled_from(list(topology)), min_size=1, max_size=20, unique=True)
    )
    latencies = {value: [float(i)] for i, value in enumerate(tried)}
    for full, vertices, size in ((None, tried, 0), (topology, topology, len(topology))):
        knob = Knob("tile", "tile", latencies=latencies, full=full)
        assert set(knob.topology) == set(vertices)
        assert knob.size == size


def test_a_large_graph_has_the_best_values():
    values = list(Factorization(2**12, parts=4))[: MAX_VERTICES + 50]
    latencies = {value: [float(i)] for i, value in enumerate(values)}
    knob = Knob("tile", "tile", latencies=latencies, full=Factorization(2**12, parts=4))
    assert set(knob.topology) == set(values[:MAX_VERTICES])
    assert knob.size == 455


def test_a_tile_of_an_unknown_loop_has_the_graph_of_tried_values():
    knob = Knob("tile", "inner tile", latencies={(2, 8): [0.1], (4, 8): [0.2]})
    assert (list(knob.topology), knob.size, list(knob.edges)) == ([(2, 8), (4, 8)], 0, [(0, 1)])


@pytest.mark.parametrize("text", ['["none", "vec', '["' + "[" * 200_000])
def test_text_that_only_looks_like_an_annotation_is_kept(text):
    assert format_value(text) == text
