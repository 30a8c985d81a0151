"""Plots of knobs: vertices, labels and tooltips."""

from itertools import combinations
from xml.etree import ElementTree

import numpy as np
import pytest
from topologies import TOPOLOGIES

from autotvm_opevo.reporting.figures import svg
from autotvm_opevo.reporting.knob_graphs import Knob, positions
from autotvm_opevo.reporting.knob_plots import draw_graph, knob_plots, tooltips
from autotvm_opevo.topology import Factorization


@pytest.mark.parametrize("topology", TOPOLOGIES, ids=repr)
def test_vertices_do_not_overlap(topology):
    """A vertex is at most as wide as the distance between the two nearest."""
    knob = Knob("knob", "tile", latencies={topology[0]: [0.1]}, full=topology)
    figure = draw_graph(knob, 0.1)
    figure.canvas.draw()
    axes = figure.axes[0]
    xy = axes.transData.transform(positions(topology)) * 72 / figure.dpi
    nearest = min(np.hypot(*(a - b)) for a, b in combinations(xy, 2))
    (width,) = {size for dots in axes.collections for size in np.sqrt(dots.get_sizes())}
    assert width <= max(nearest, np.sqrt(6))


def test_vertices_have_tooltips():
    latencies = {(8, 1, 1): [0.003, 0.002, 0.004], (1, 8, 1): [np.inf]}
    knob = Knob("tile", "tile", latencies=latencies, full=Factorization(8, parts=3))
    texts = tooltips(knob)
    assert "8x1x1: 3 trials, best 2.000 ms" in texts
    assert "1x8x1: 1 trial, all failed" in texts
    assert "2x2x2: not tried" in texts
    root = ElementTree.fromstring(svg(draw_graph(knob, 0.002), "tile", texts))
    drawn = [title.text for use in root.iter("{http://www.w3.org/2000/svg}use") for title in use]
    assert sorted(drawn) == sorted(texts)


def labels(topology, kind="tile"):
    latencies = {value: [0.1 * (i + 1)] for i, value in enumerate(topology)}
    (axes,) = draw_graph(Knob("knob", kind, latencies=latencies, full=topology), 0.1).axes
    return [text.get_text() for text in axes.texts]


def test_all_vertices_have_labels_if_there_is_room_else_the_best_one_has():
    assert labels(Factorization(16, parts=2)) == ["1x16", "2x8", "4x4", "8x2", "16x1"]
    assert len(labels(Factorization(784, parts=2))) == 1


def test_of_a_knob_whose_values_all_failed_none_is_called_the_best():
    """As of a sketch of which no trial succeeded."""
    failed = Knob("tile", "tile", latencies={(8, 1): [np.inf], (4, 2): [np.inf]})
    other = Knob("unroll", "number", latencies={0: [0.1], 16: [0.2]})
    captions = [plot.caption for plot in knob_plots([failed, other])]
    assert captions[0] == "the 2 values that were tried."
    assert captions[1].endswith("; best: 0 (100.000 ms), 16 (200.000 ms).")
