"""Plots: which there are, their data, captions and escaping."""

from xml.etree import ElementTree

import numpy as np
import pytest
from synthetic_logs import autotvm_line, autotvm_log

from autotvm_opevo.reporting import plots
from autotvm_opevo.reporting.figures import INK, RULE, SERIES, svg
from autotvm_opevo.reporting.logs import open_logs
from autotvm_opevo.reporting.network import Network, TaskInLog
from autotvm_opevo.tuning.journal import Journal, RunStarted
from autotvm_opevo.tuning.record_lines import task_key


def bars(figure):
    (axes,) = figure.axes
    names = [text for label in axes.texts if not (text := label.get_text()).endswith("→")]
    return names, {c.get_label(): [round(bar.get_width(), 6) for bar in c] for c in axes.containers}


def test_bars_are_first_and_best_trial_or_the_best_of_each_log(tmp_path):
    """Dense runs twice, conv2d once; both take 64 ms at first and 8 ms in the end."""
    log, other = (
        autotvm_log(tmp_path / "log.json", trials=4),
        autotvm_log(tmp_path / "other.json", trials=4, latency=0.02),
    )
    dense, conv2d = (
        task_key("llvm", name, [["TENSOR", [1, 64], "float32"]]) for name in ("dense", "conv2d")
    )
    for path in (log, other):
        Journal(f"{path}.journal").write(RunStarted([(2, [dense]), (1, [conv2d])], "OpEvoTuner"))
    for paths, expected in (
        ([log], {"first trial": [128, 64], "best trial": [16, 8]}),
        ([log, other], {"log.json": [16, 8], "other.json": [40, 20]}),
    ):
        logs = open_logs(paths)
        plot = plots.overview_plots(Network(logs), logs)[-1]
        assert bars(plot.figure) == (["2 times dense 1x64", "conv2d 1x64"], expected)


def test_charts_use_the_colours_of_the_page(tmp_path):
    (log,) = open_logs([autotvm_log(tmp_path / "log.json")])
    task = Network([log]).tasks[0]
    for plot in plots.progress_plots(task):
        text = svg(plot.figure, plot.title)
        assert "var(--ink)" in text
        assert "var(--series-0)" in text
        assert INK not in text


def test_names_are_escaped(tmp_path):
    name = "<script>a</script> $\\pi$ & $x font: 1px #1f2328"
    (log,) = open_logs([autotvm_log(tmp_path / "log.json")])
    task = next(iter(log.tasks.values()))
    text = svg(plots.draw_task([TaskInLog(0, name, task), TaskInLog(1, "other", task)]), name)
    root = ElementTree.fromstring(text)
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert name in texts
    assert not list(root.iter("script"))


def test_of_long_labels_a_legend_has_the_ends(tmp_path):
    (log,) = open_logs([autotvm_log(tmp_path / "log.json")])
    task = next(iter(log.tasks.values()))
    figure = plots.draw_task([TaskInLog(i, f"{'folder/' * 9}log-{i}.json", task) for i in range(2)])
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert [len(label) for label in labels] == [48, 48]
    assert [label[-10:] for label in labels] == ["log-0.json", "log-1.json"]


def test_best_so_far_over_time_is_sorted_by_time(tmp_path):
    log = tmp_path / "log.json"
    log.write_text(
        "\n".join(
            autotvm_line(trial, latency=ms * 1e-3) for trial, ms in ((100, 1), (0, 4), (10, 3))
        )
    )
    (task,) = open_logs([log])[0].tasks.values()
    (axes,) = plots.draw_task([TaskInLog(0, "log", task)], over_time=True).axes
    (curve,) = (line for line in axes.lines if line.get_gid() == "best")
    assert curve.get_xydata() == pytest.approx(np.array([[0, 4], [10, 3], [100, 1]]))


def test_trials_above_the_chart_are_counted(tmp_path):
    log = tmp_path / "log.json"
    log.write_text(
        "\n".join(
            autotvm_line(trial, latency=1.0 if trial in (50, 60) else 1e-3) for trial in range(100)
        )
    )
    plot = plots.progress_plots(Network(open_logs([log])).tasks[0])[0]
    assert plot.caption.endswith("Each dot is a trial; 2 slower ones off the chart.")


def test_the_integral_of_throughput_is_the_number_of_trials():
    elapsed = np.sort(np.random.default_rng(0).uniform(0, 3000, 200))
    (stairs,) = plots.draw_throughput([(0, "_log", elapsed), (1, "b", elapsed[:1])]).axes[0].patches
    values, edges, _ = stairs.get_data()
    assert values @ np.diff(edges) == pytest.approx(200)  # minutes


def test_throughput_spreads_a_batch_over_the_time_since_the_last_one():
    """Sixty trials per minute, although the results of a batch of eight all arrive after eight
    seconds.
    """
    elapsed = np.repeat(np.arange(8.0, 81.0, 8.0), 8) + np.tile(np.arange(8) * 1e-6, 10)
    (stairs,) = plots.draw_throughput([(0, "log", elapsed)]).axes[0].patches
    assert stairs.get_data().values == pytest.approx(60, rel=1e-3)


def test_network_progress_over_time_uses_the_unit_of_its_label():
    figure = plots.draw_total(
        [(0, "log", np.array([3.0, 2.0, 1.0]))], [np.array([600.0, 1200.0, 6000.0])]
    )
    (curve,) = figure.axes[0].lines
    assert figure.axes[0].get_xlabel() == "minutes"
    assert curve.get_xydata() == pytest.approx(np.array([[10, 3000], [20, 2000], [100, 1000]]))


def test_trials_of_one_batch_make_no_curve_over_time(tmp_path):
    """As of a small task of MetaSchedule: they would all be on the right border."""
    (log,) = open_logs([autotvm_log(tmp_path / "log.json", trials=4)])
    task = log.tasks[next(iter(log.tasks))]
    task.elapsed = np.array([2.0] * 4)
    assert plots.draw_task([TaskInLog(0, "log", task)], over_time=True) is None
    task.elapsed = np.array([2.0, 4.0, 6.0, 6.0])
    assert plots.draw_task([TaskInLog(0, "log", task)], over_time=True) is not None


def test_a_bar_that_would_squash_the_others_is_cut_and_says_its_length():
    figure = plots.draw_operators(
        ["a", "b"], [("first trial", RULE, [14.14, 0.3]), ("best trial", SERIES[0], [0.1, 0.2])]
    )
    (axes,) = figure.axes
    assert axes.get_xlim() == (0, pytest.approx(0.8))
    assert [text.get_text() for text in axes.texts] == ["a", "b", "14.1 →"]
    (axes,) = plots.draw_operators(
        ["a", "b"], [("first trial", RULE, [0.7, 0.0]), ("best trial", SERIES[0], [0.2, 0.0])]
    ).axes
    assert axes.get_xlim()[1] > 0.7
    assert len(axes.texts) == 2
