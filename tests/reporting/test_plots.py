"""Which plots there are, and what they show."""

from synthetic_logs import autotvm_log

from autotvm_opevo.reporting.logs import open_logs
from autotvm_opevo.reporting.network import Network
from autotvm_opevo.reporting.plots import overview_plots
from autotvm_opevo.tuning.journal import Journal, RunStarted
from autotvm_opevo.tuning.naming import task_key


def bars(figure):
    (axes,) = figure.axes
    names = [text for label in axes.texts if not (text := label.get_text()).endswith("→")]
    return names, {c.get_label(): [round(bar.get_width(), 6) for bar in c] for c in axes.containers}


def test_bars_are_first_and_best_trial_or_the_best_of_each_log(tmp_path):
    """Dense runs twice, conv2d once; both take 64 ms at first and 8 ms in the end."""
    log, other = autotvm_log(tmp_path / "log.json", trials=4), autotvm_log(tmp_path / "other.json", trials=4, latency=0.02)
    dense, conv2d = (task_key("llvm", name, [["TENSOR", [1, 64], "float32"]]) for name in ("dense", "conv2d"))
    for path in (log, other):
        Journal(f"{path}.journal").write(RunStarted([(2, [dense]), (1, [conv2d])], "OpEvoTuner"))
    for paths, expected in (
        ([log], {"first trial": [128, 64], "best trial": [16, 8]}),
        ([log, other], {"log.json": [16, 8], "other.json": [40, 20]}),
    ):
        logs = open_logs(paths)
        plot = overview_plots(Network(logs), logs, {})[-1]
        assert bars(plot.figure) == (["2 times dense 1x64", "conv2d 1x64"], expected)
