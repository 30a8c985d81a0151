"""Plots: which there are, their data, captions and escaping."""

from xml.etree import ElementTree

import numpy as np
import pytest
from synthetic_logs import CONV2D, DENSE, autotvm_line, autotvm_log, record, write_log

from autotvm_opevo.reporting import plots
from autotvm_opevo.reporting.figures import INK, RULE, SERIES, svg
from autotvm_opevo.reporting.logs import open_logs
from autotvm_opevo.reporting.tuning_log import TuningLog
from autotvm_opevo.tuning.run_log import RunStarted


def bars(figure):
    (axes,) = figure.axes
    names = [text for label in axes.texts if not (text := label.get_text()).endswith("→")]
    return names, [[round(bar.get_width(), 6) for bar in bars] for bars in axes.containers]


def test_bars_are_first_and_best_trial_or_the_best_of_each_log(tmp_path):
    """Dense runs twice, conv2d once; both take 64 ms at first and 8 ms in the end."""
    log, other = (
        autotvm_log(tmp_path / "log.json", trials=4),
        autotvm_log(tmp_path / "other.json", trials=4, latency=0.02),
    )
    for path in (log, other):
        record(path, RunStarted([(2, [DENSE]), (1, [CONV2D])], "OpEvoTuner"))
    for paths, expected in (
        ([log], [[128, 64], [16, 8]]),
        ([log, other], [[16, 8], [40, 20]]),
    ):
        plot = plots.overview_plots(open_logs(paths))[-1]
        assert bars(plot.figure) == (["2 times dense 1x64", "conv2d 1x64"], expected)


def test_charts_use_the_colours_of_the_page(tmp_path):
    (log,) = open_logs([autotvm_log(tmp_path / "log.json")])
    for plot in plots.progress_plots(next(iter(log.tasks)), [log]):
        text = svg(plot.figure, plot.title)
        assert "var(--ink)" in text
        assert "var(--series-0)" in text
        assert INK not in text


def test_names_are_escaped():
    name = "<script>a</script> $\\pi$ & $x font: 1px #1f2328"
    root = ElementTree.fromstring(svg(plots.draw_bars([name], [(RULE, [1.0])]), name))
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert name in texts
    assert not list(root.iter("script"))


def test_best_so_far_over_time_is_sorted_by_time(tmp_path):
    trials = (100, 1), (0, 4), (10, 3)
    lines = (autotvm_line(trial, latency=ms * 1e-3) for trial, ms in trials)
    opened = open_logs([write_log(tmp_path / "log.json", *lines)])
    _, plot = plots.progress_plots(next(iter(opened[0].tasks)), opened)
    (axes,) = plot.figure.axes
    (curve,) = (line for line in axes.lines if line.get_gid() == "best")
    assert curve.get_xydata() == pytest.approx(np.array([[0, 4], [10, 3], [100, 1]]))


def test_trials_above_the_chart_are_counted(tmp_path):
    lines = (autotvm_line(i, latency=1.0 if i in (50, 60) else 1e-3) for i in range(100))
    opened = open_logs([write_log(tmp_path / "log.json", *lines)])
    plot = plots.progress_plots(next(iter(opened[0].tasks)), opened)[0]
    assert plot.caption.endswith("Each dot is a trial; 2 slower ones off the chart.")


def test_progress_over_time_uses_the_unit_of_its_label():
    seconds, latencies = np.array([600.0, 1200.0, 6000.0]), np.array([3.0, 2.0, 1.0])
    figure = plots.draw_best_so_far([(TuningLog("log"), seconds, latencies)], over_time=True)
    (curve,) = figure.axes[0].lines
    assert figure.axes[0].get_xlabel() == "minutes"
    assert curve.get_xydata() == pytest.approx(np.array([[10, 3000], [20, 2000], [100, 1000]]))


def test_trials_of_one_batch_make_no_curve_over_time(tmp_path):
    """As of a small task of MetaSchedule: they would all be on the right border."""
    (log,) = open_logs([autotvm_log(tmp_path / "log.json", trials=4)])
    key = next(iter(log.tasks))
    for elapsed, expected in ([2.0] * 4, 1), ([2.0, 4.0, 6.0, 6.0], 2):
        log.tasks[key].elapsed = np.array(elapsed)
        assert len(plots.progress_plots(key, [log])) == expected


def test_a_bar_that_would_squash_the_others_is_cut_and_says_its_length():
    figure = plots.draw_bars(["a", "b"], [(RULE, [14.14, 0.3]), (SERIES[0], [0.1, 0.2])])
    (axes,) = figure.axes
    assert axes.get_xlim() == (0, pytest.approx(0.8))
    assert [text.get_text() for text in axes.texts] == ["a", "b", "14.1 →"]
    (axes,) = plots.draw_bars(["a", "b"], [(RULE, [0.7, 0.0]), (SERIES[0], [0.2, 0.0])]).axes
    assert axes.get_xlim()[1] > 0.7
    assert len(axes.texts) == 2
