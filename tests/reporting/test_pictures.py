"""Graphs of knobs: which vertices, where they lie, and what is drawn of them."""

from itertools import combinations
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_up_logs import autotvm_line, autotvm_log, meta_schedule_folder

from autotvm_opevo.reporting import charts, pictures
from autotvm_opevo.reporting.knob_graphs import LARGEST, knob_graph, positions
from autotvm_opevo.reporting.logs import open_logs
from autotvm_opevo.reporting.network import Network, Run
from autotvm_opevo.reporting.style import INK
from autotvm_opevo.reporting.svg import svg
from autotvm_opevo.reporting.trials import Knob, ValueStats
from autotvm_opevo.topology import Categorical, Discrete, Factorization, InducedSubgraph, Permutation, Tiling
from autotvm_opevo.tuning.journal import Journal
from autotvm_opevo.tuning.naming import task_key

TOPOLOGIES = [
    Factorization(64, parts=2),
    Factorization(12, parts=2),
    Factorization(3600, parts=2),
    Factorization(30030, parts=2),
    Factorization(8, parts=3),
    Factorization(360, parts=3),
    Factorization(256, parts=4),
    Factorization(24, parts=5),
    Permutation(4),
    Discrete([0, 1, 5, 1500]),
    Categorical(list("abcdefg")),
    Categorical("ab"),
    InducedSubgraph(Tiling([(a, b) for a in (1, 2, 4, 16) for b in (1, 8)]), [(a, b) for a in (1, 2, 4, 16) for b in (1, 8)]),
    InducedSubgraph(Permutation(3), [(0, 1, 2), (2, 1, 0)]),
]


@pytest.mark.parametrize("topology", TOPOLOGIES, ids=repr)
def test_no_two_vertices_lie_in_the_same_place(topology):
    where = positions(topology)
    assert where.shape == (len(topology), 2)
    assert np.abs(where).max() <= 1 + 1e-9
    assert min(np.hypot(*(a - b)) for a, b in combinations(where, 2)) > 0.01


@pytest.mark.parametrize("topology", TOPOLOGIES, ids=repr)
def test_no_vertex_hides_another(topology):
    """The dots are at most as wide as the nearest two are apart."""
    figure = charts.knob(knob_graph("knob", Knob("tile", seen={topology[0]: ValueStats(1, 0.1)}), topology), 0.1)
    figure.canvas.draw()
    axes = figure.axes[0]
    where = axes.transData.transform(positions(topology)) * 72 / figure.dpi
    nearest = min(np.hypot(*(a - b)) for a, b in combinations(where, 2))
    (width,) = {size for dots in axes.collections for size in np.sqrt(dots.get_sizes())}
    assert width <= max(nearest, np.sqrt(6))


def test_loops_longer_than_any_number_of_numpys_are_drawn():
    knob = Knob("inner tile", seen={(10**20,): ValueStats(1, 0.1), (1,): ValueStats(1, 0.2)})
    assert np.isfinite(knob_graph("tile", knob).positions).all()


@pytest.mark.parametrize("innermost", [1, 4, 64])
def test_no_tile_is_drawn_that_the_trace_does_not_allow(innermost):
    graph = knob_graph("tile", Knob("tile", innermost=innermost, seen={(64, 1): ValueStats(1, 0.1)}))
    assert sorted(tile[-1] for tile in graph.topology) == [part for part in (1, 2, 4, 8, 16, 32, 64) if part <= innermost]


def test_three_parts_are_the_papers_triangle():
    """Every edge of the lattice is as long as any other."""
    topology = Factorization(8, parts=3)
    where = positions(topology)
    edges = list(knob_graph("tile", Knob("tile", seen={(8, 1, 1): ValueStats()}), topology).edges)
    assert len(edges) == 18
    assert np.ptp([np.hypot(*(where[i] - where[j])) for i, j in edges]) < 1e-9


def test_two_parts_are_a_grid_of_their_primes():
    """12 = 2 x 2 x 3: three columns of two, and no edge of the lattice lies on another."""
    topology = Factorization(12, parts=2)
    where = positions(topology)
    assert (len({round(x, 9) for x, _ in where}), len({round(y, 9) for _, y in where})) == (3, 2)
    edges = [where[j] - where[i] for i, j in knob_graph("tile", Knob("tile", seen={(12, 1): ValueStats()}), topology).edges]
    assert len(edges) == 7
    assert all(np.count_nonzero(np.abs(edge) > 1e-9) == 1 for edge in edges)


def test_inner_tiles_lie_where_the_whole_tile_would():
    whole = Factorization(64, parts=3)
    inner = [tile[1:] for tile in whole]
    assert np.allclose(positions(whole), positions(InducedSubgraph(Tiling(inner), inner)))


@given(st.sampled_from(TOPOLOGIES[:5]), st.data())
def test_a_graph_has_every_value_that_was_tried_or_the_best_of_them(topology, data):
    tried = data.draw(st.lists(st.sampled_from(list(topology)), min_size=1, max_size=20, unique=True))
    knob = Knob("tile")
    for i, value in enumerate(tried):
        knob.add(value, 1, float(i))
    for full, vertices, size in ((None, tried, 0), (topology, topology, len(topology))):
        graph = knob_graph("tile", knob, full)
        assert set(graph.topology) == set(vertices)
        assert graph.size == size


def test_of_many_values_the_best_are_drawn():
    values = list(Factorization(2**12, parts=4))[: LARGEST + 50]
    tile = Knob("tile", seen={value: ValueStats(1, float(i)) for i, value in enumerate(values)})
    graph = knob_graph("tile", tile, Factorization(2**12, parts=4))
    assert set(graph.topology) == set(values[:LARGEST])
    assert graph.size == 455


def test_a_tile_whose_loop_is_unknown_is_a_graph_of_what_was_seen():
    graph = knob_graph("tile", Knob("inner tile", seen={(2, 8): ValueStats(1, 0.1), (4, 8): ValueStats(1, 0.2)}))
    assert (list(graph.topology), graph.size, list(graph.edges)) == ([(2, 8), (4, 8)], 0, [(0, 1)])


def test_a_vertex_says_what_was_seen_there():
    knob = Knob("tile", seen={(8, 1, 1): ValueStats(3, 0.002), (1, 8, 1): ValueStats(1, np.inf)})
    graph = knob_graph("tile", knob, Factorization(8, parts=3))
    texts = charts.describe(graph)
    assert "8x1x1: tried 3 times, best 2.000 ms" in texts
    assert "1x8x1: tried 1 time, all failed" in texts
    assert "2x2x2: not tried" in texts
    root = ElementTree.fromstring(svg(charts.knob(graph, 0.002), "tile", texts))
    drawn = [title.text for use in root.iter("{http://www.w3.org/2000/svg}use") for title in use]
    assert sorted(drawn) == sorted(texts)


def test_a_picture_takes_its_colours_from_the_page(tmp_path):
    (recording,) = open_logs([autotvm_log(tmp_path / "log.json")])
    task = Network([recording]).tasks[0]
    for picture in pictures.of_progress(task):
        text = svg(picture.figure, picture.title)
        assert "var(--ink)" in text
        assert "var(--series-0)" in text
        assert INK not in text


def test_names_are_text_whatever_is_in_them(tmp_path):
    name = "<script>alert(1)</script> $\\alpha$ & $x font: 1px x #1f2328"
    (recording,) = open_logs([autotvm_log(tmp_path / "log.json")])
    task = next(iter(recording.tasks.values()))
    text = svg(charts.progress([Run(0, name, task), Run(1, "other", task)]), name)
    root = ElementTree.fromstring(text)
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert name in texts
    assert not list(root.iter("script"))


def test_the_best_so_far_over_time_goes_forward_whatever_the_logs_order(tmp_path):
    log = tmp_path / "log.json"
    log.write_text("\n".join(autotvm_line(trial, latency=ms * 1e-3) for trial, ms in ((100, 1), (0, 4), (10, 3))))
    (task,) = open_logs([log])[0].tasks.values()
    (curve,) = (line for line in charts.progress([Run(0, "log", task)], over_time=True).axes[0].lines if line.get_gid() == "best")
    assert curve.get_xydata() == pytest.approx(np.array([[0, 4], [10, 3], [100, 1]]))


def test_all_operators_together_are_the_sum_of_their_best_so_far(tmp_path):
    """Dense is run twice and has two ways; nothing is known until both operators have a trial that works."""
    trials = [("dense", 8), ("conv2d", 5), ("dense_pack", 3), ("conv2d", 9), ("conv2d", 4)]
    lines = [autotvm_line(i, template, latency=ms * 1e-3) for i, (template, ms) in enumerate(trials)]
    (tmp_path / "log.json").write_text("\n".join(lines))
    keys = [task_key("llvm", name, [["TENSOR", [1, 64], "float32"]]) for name in ("dense", "dense_pack", "conv2d")]
    Journal(tmp_path / "log.json.journal").begin([(2, keys[:2]), (1, keys[2:])], "OpEvoTuner")
    network = Network(open_logs([tmp_path / "log.json"]))
    assert list(network.best_so_far(0) * 1e3) == pytest.approx([np.inf, 21, 11, 11, 10])
    assert network.seconds_in(0) == pytest.approx(0.01)


def bars(figure):
    (axes,) = figure.axes
    names = [label.get_text() for label in axes.get_yticklabels()]
    return names, {c.get_label(): [round(bar.get_width(), 6) for bar in c] for c in axes.containers}


def test_bars_are_milliseconds_before_and_after_or_those_of_each_log(tmp_path):
    """Dense, run twice: 64 ms at first, 8 in the end; conv2d the same, once."""
    log, other = autotvm_log(tmp_path / "log.json", trials=4), autotvm_log(tmp_path / "other.json", trials=4, latency=0.02)
    dense, conv2d = (task_key("llvm", name, [["TENSOR", [1, 64], "float32"]]) for name in ("dense", "conv2d"))
    for path in (log, other):
        Journal(f"{path}.journal").begin([(2, [dense]), (1, [conv2d])], "OpEvoTuner")
    for logs, expected in (
        ([log], {"first trial": [128, 64], "best": [16, 8]}),
        ([log, other], {"log.json": [16, 8], "other.json": [40, 20]}),
    ):
        recordings = open_logs(logs)
        picture = pictures.of_all(Network(recordings), recordings)[-1]
        assert bars(picture.figure) == (["2 times dense 1x64", "conv2d 1x64"], expected)


def test_the_area_below_trials_a_minute_is_all_trials():
    elapsed = np.sort(np.random.default_rng(0).uniform(0, 3000, 200))
    (stairs,) = charts.throughput([(0, "_log", elapsed), (1, "b", elapsed[:1])]).axes[0].patches
    values, edges, _ = stairs.get_data()
    assert values @ np.diff(edges) == pytest.approx(200)  # minutes


def test_a_batch_that_came_at_once_was_measured_since_the_one_before():
    """Sixty trials a minute, although all results of a batch of eight come after eight seconds."""
    elapsed = np.repeat(np.arange(8.0, 81.0, 8.0), 8) + np.tile(np.arange(8) * 1e-6, 10)
    (stairs,) = charts.throughput([(0, "log", elapsed)]).axes[0].patches
    assert stairs.get_data().values == pytest.approx(60, rel=1e-3)


def test_all_operators_over_time_are_drawn_in_the_unit_that_is_named():
    figure = charts.whole([(0, "log", np.array([3.0, 2.0, 1.0]))], [np.array([600.0, 1200.0, 6000.0])])
    (curve,) = figure.axes[0].lines
    assert figure.axes[0].get_xlabel() == "minutes"
    assert curve.get_xydata() == pytest.approx(np.array([[10, 3000], [20, 2000], [100, 1000]]))


def test_pictures_and_tables_are_saved(tmp_path):
    from autotvm_opevo import report

    logs = [autotvm_log(tmp_path / "log.json"), meta_schedule_folder(tmp_path / "folder")]
    report(*logs, out=tmp_path / "report.html", png=tmp_path / "png", csv=tmp_path / "csv")
    found = {str(path.relative_to(tmp_path / "png")) for path in (tmp_path / "png").rglob("*.png")}
    assert {"03 trials a minute.png", "04 latency of each operator.png"} <= found
    assert {"01 dense 1x64/01 best so far over trials.png", "01 dense 1x64/03 tile_x.png"} <= found
    assert "03 matmul 8x64 64x64/02 matmul loop 2 64 iterations.png" in found
    rows = (tmp_path / "csv" / "trials.csv").read_text().splitlines()
    assert rows[0] == "log,task,trial,time,latency_ms,best_so_far_ms"
    assert len(rows) == 1 + 64 + 8
    assert "log.json,dense 1x64,1,1795000000.0,64.0,64.0" in rows
    assert 'folder,matmul 8x64 64x64,"matmul, loop 2, 64 iterations",32x2,1,2.0' in (tmp_path / "csv" / "knobs.csv").read_text()
