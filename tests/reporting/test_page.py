"""Text of the page."""

import json
import re

import pytest
from compared_networks import compared
from report_text import page_text, report_text
from synthetic_logs import (
    CONV2D,
    DENSE,
    autotvm_line,
    autotvm_log,
    key_of,
    meta_schedule_folder,
    record,
    write_log,
)

from autotvm_opevo import report
from autotvm_opevo.reporting.figures import SERIES
from autotvm_opevo.tuning.run_log import NetworkCompared, RunStarted

# Drawing the charts takes most of the time.
text_only = pytest.mark.usefixtures("undrawn")


def test_the_page_has_captions_warnings_and_configurations(page):
    text = page.read_text()
    for words in (
        "latency of the network 500.000 ms before tuning, 250.000 ms after",
        "1 malformed line skipped",
        "tile_x: ?x64; order: 0 2 1; vec: vec; unroll: 0",
        "Latency of each operator in the network: best trial in each log",
        "unknown: the run log that tune_network writes would have it",
        "some timestamps are missing, so there are neither times nor plots over time",
    ):
        assert words in text


@pytest.mark.parametrize(
    "templates", [["dense"], ["dense", "conv2d"]], ids=["one task", "two tasks"]
)
def test_every_link_leads_somewhere(tmp_path, templates):
    lines = (autotvm_line(trial, templates[trial % len(templates)]) for trial in range(40))
    log = write_log(tmp_path / "log.json", *lines)
    text = report(log, out=tmp_path / "report.html").read_text()
    assert (links := set(re.findall('href="#([^"]+)"', text)))
    assert links <= set(re.findall('id="([^"]+)"', text))


@pytest.mark.parametrize(
    "values",
    [
        ([["x", "ot", 0]], [["x", "ot", None]]),
        ([["x", "ot", 0]], [["x", "ot", "a"]]),
        ([["x", "ot", 0]], [["x", "ot", float("nan")]]),
        ([["x", "ot", 0]], [["x", "sp", [-1, 2]]]),
        ([["x", "sp", [4, 2]]], [["x", "sp", [2, 2, 2]]]),
        ([["x", "sp", [-1, 2]]], [["x", "sp", [-1, 2, 2]]]),
        ([["x", "sp", [4, 2]]], [["x", "sp", [3, 5]]]),
        ([["x", "re", [0, 1]]], [["x", "re", [0, 1, 2]]]),
        ([["x", "re", [0, 1]]], [["x", "re", [5, 7]]]),
        ([["x", "an", []]], [["x", "an", ["vec"]]]),
    ],
)
@text_only
def test_a_knob_may_have_values_of_different_kinds(tmp_path, values):
    lines = []
    for trial, entity in enumerate(values):
        record = json.loads(autotvm_line(trial))
        record["config"]["entity"] = entity
        lines.append(json.dumps(record))
    assert re.search(r"knob values tried best x 2 \S", report_text(tmp_path, *lines))


@text_only
def test_pauses_are_not_counted_as_tuning_time(tmp_path):
    """Twenty trials of a second each, a night, and twenty more."""
    trials = [*range(20), *range(30_000, 30_020)]
    text = report_text(tmp_path, *(autotvm_line(trial, tile=2 ** (trial % 7)) for trial in trials))
    assert "1 pause (8.3 h in total) not counted as tuning time" in text
    assert "time spent on this task 38 s" in text


@text_only
def test_time_starts_with_the_run_if_the_run_log_has_its_start(tmp_path, monkeypatch):
    log = tmp_path / "log.json"
    for start in (1.795e9 - 60, 1.795e9 + 500):
        monkeypatch.setattr("time.time", lambda start=start: start)
        record(log, RunStarted([(1, ["dense"])], "OpEvoTuner surrogate='gp', seed 0"))
    text = report_text(tmp_path, *(autotvm_line(trial) for trial in (0, 20, 510)))
    assert "3 trials of 1 task in 90 s, the first at" in text
    assert "tuned by OpEvoTuner surrogate=&#39;gp&#39;, seed 0" in text
    assert "1 pause (8 min in total) not counted as tuning time" in text


def test_a_task_without_successful_trials(tmp_path):
    text = report_text(tmp_path, *(autotvm_line(trial, error_no=4) for trial in range(4)))
    assert "best, ms -" in text
    assert "All trials of this task failed." in text


@text_only
def test_implementations_of_the_same_operator_are_told_apart(tmp_path):
    names = [key_of(name) for name in ("dense_nopack", "dense_pack")]
    started = RunStarted([(2, names)], "OpEvoTuner")
    record(tmp_path / "log.json", started, NetworkCompared(0.5, 0.25))
    text = report_text(
        tmp_path,
        autotvm_line(1, "dense_nopack", latency=4e-3),
        autotvm_line(0, "dense_pack", latency=1e-3),
    )
    assert "dense_pack 1x64 2 100%" in text
    assert "dense_nopack 1x64 2 4.000 1 1 0% 100% slower implementation" in text
    assert "how sure slower implementation, one trial" in text
    assert "Shares are relative to the sum over all operators" in text


@text_only
def test_an_implementation_without_successful_trials_is_not_called_slower(tmp_path):
    names = [key_of(name) for name in ("dense_pack", "dense_nopack")]
    record(tmp_path / "log.json", RunStarted([(1, names)], "OpEvoTuner"))
    text = report_text(
        tmp_path, autotvm_line(0, "dense_pack", error_no=4), autotvm_line(1, "dense_nopack")
    )
    assert "slower implementation" not in text


@text_only
def test_logs_are_compared_by_the_first_trial_near_the_best(tmp_path):
    """One finds 1 ms in its fourth trial, one 1.04 ms in its second, which is near the best, and
    one nothing near it.
    """
    for name, found in (("a", [4, 3, 2, 1]), ("b", [4, 1.04, 4, 4]), ("c", [4, 3, 2, 2])):
        lines = [autotvm_line(trial, latency=ms * 1e-3) for trial, ms in enumerate(found)]
        write_log(tmp_path / f"{name}.json", *lines)
    text = page_text(report(*sorted(tmp_path.glob("*.json")), out=tmp_path / "report.html"))
    assert "best, ms 1.000 1.040 2.000" in text
    assert "within 5% of the best at trial 4 2 never" in text
    assert "time until then 3.0 s 1.0 s -" in text


@text_only
def test_where_all_trials_failed_neither_a_share_nor_what_is_near_the_best_is_shown(tmp_path):
    lines = [autotvm_line(i, name, error_no=4) for i, name in enumerate(("dense", "conv2d"))]
    for name in ("a", "b"):
        write_log(tmp_path / f"{name}.json", *lines)
    text = page_text(report(*tmp_path.glob("*.json"), out=tmp_path / "report.html"))
    assert "All tasks task log best, ms trials failed time" in text
    assert "Shares" not in text
    assert "within 5% of the best" not in text


@text_only
def test_a_task_with_different_counts_in_two_run_logs_is_shown_once(tmp_path):
    for name, count in (("a", 2), ("b", 4)):
        log = autotvm_log(tmp_path / f"{name}.json", trials=4)
        record(log, RunStarted([(count, [DENSE])], "OpEvoTuner"))
    text = report(
        tmp_path / "a.json", tmp_path / "b.json", out=tmp_path / "report.html"
    ).read_text()
    assert text.count('id="task-1"') == text.count('id="task-2"') == 1
    assert "not all run logs have the number of runs in the network" in text  # of the other task


@text_only
def test_each_log_uses_the_counts_of_its_own_run_log(tmp_path):
    """Dense and conv2d take 8 ms each; the second network runs dense three times."""
    for name, count in (("a", 1), ("b", 3)):
        log = autotvm_log(tmp_path / f"{name}.json", trials=4)
        record(log, RunStarted([(count, [DENSE]), (1, [CONV2D])], "OpEvoTuner"))
    text = page_text(report(tmp_path / "a.json", tmp_path / "b.json", out=tmp_path / "report.html"))
    assert "How good? 16.000 ms" in text
    assert "How good? 32.000 ms" in text
    assert "dense 1x64 a.json 1 50%" in text
    assert "b.json 3 75%" in text


@text_only
@pytest.mark.parametrize("logs", [("a", "b"), ("b", "a")])
def test_implementations_from_different_run_logs_are_merged(tmp_path, logs):
    pack, nopack = map(key_of, ("dense_pack", "dense_nopack"))
    for name, implementations in (("a", [nopack]), ("b", [nopack, pack])):
        lines = [
            autotvm_line(0, "dense_nopack", latency=4e-3),
            *([autotvm_line(1, "dense_pack", latency=1e-3)] * (pack in implementations)),
        ]
        log = write_log(tmp_path / f"{name}.json", *lines)
        record(log, RunStarted([(2, implementations)], "OpEvoTuner"))
    text = page_text(
        report(*(tmp_path / f"{name}.json" for name in logs), out=tmp_path / "report.html")
    )
    assert "b.json 2 4.000 1 1 0%" in text  # slower than the other, in this log only
    assert text.count("slower implementation") == 2  # in the table, and in the task
    assert "b.json 2 100% 1.000" in text


@text_only
def test_tasks_in_no_run_log_are_different_operators(tmp_path):
    for name, target in (("a", "llvm"), ("b", "cuda")):
        folder = meta_schedule_folder(tmp_path / name)
        records = folder / "database_tuning_record.json"
        records.write_text(records.read_text().replace('"llvm"', f'"{target}"'))
    text = page_text(report(tmp_path / "a", tmp_path / "b", out=tmp_path / "report.html"))
    assert "matmul 8x64 64x64 for llvm" in text
    assert "matmul 8x64 64x64 for cuda" in text
    assert "implementation" not in text


@text_only
def test_a_run_log_has_a_start_for_each_run(tmp_path):
    """The second run has another tuner, the third another network."""
    log, dense = tmp_path / "log.json", [(1, [DENSE])]
    latencies = NetworkCompared.of(compared(0.4, 0.2, noise=0).race)
    record(log, RunStarted(dense, "XGBTuner"), latencies, RunStarted(dense, "OpEvoTuner"))
    text = report_text(tmp_path, autotvm_line(0))
    assert "tuned by XGBTuner, then OpEvoTuner" in text
    assert "latency of the network 400.000 ms before tuning" in text
    assert "200.000 ms after (25.00 times the sum of its tuned operators), 2.00 times as" in text
    assert "pause" not in text
    record(log, RunStarted([(1, ["another"])], "OpEvoTuner"))
    text = report_text(tmp_path, autotvm_line(0))
    assert "tuned by XGBTuner, then OpEvoTuner;" not in text
    assert "latency of the network" not in text


@text_only
@pytest.mark.parametrize("time", ["1e18", "-Infinity", "NaN", "-1"])
def test_invalid_timestamps_only_remove_the_plots_over_time(tmp_path, time):
    text = report_text(tmp_path, autotvm_line(0), autotvm_line(1).replace("1795000001.0", time))
    assert "2 trials of 1 task" in text
    assert "neither times nor plots over time" in text


@text_only
def test_the_current_folder_is_labelled_with_its_name(tmp_path, monkeypatch):
    folder = meta_schedule_folder(tmp_path / "alexnet")
    monkeypatch.chdir(folder)
    assert "alexnet : 8 trials" in page_text(report(".", out=tmp_path / "report.html"))


@text_only
def test_the_total_of_a_log_is_of_its_own_operators(tmp_path):
    autotvm_log(tmp_path / "a.json", trials=4)
    (tmp_path / "b.json").write_text(autotvm_line(0))
    text = page_text(report(tmp_path / "a.json", tmp_path / "b.json", out=tmp_path / "report.html"))
    trials = "8 trials of 2 tasks in 3.0 s, the first at 2026-11-18 11:06 UTC"
    assert f"a.json : {trials}" in text
    assert "How good? 16.000 ms" in text
    assert "How good? 8.000 ms;" in text
    assert "The logs do not have the same operators" in text


@text_only
def test_operators_without_trials_are_counted_as_unsolved(tmp_path):
    """The run log has four operators: one has a successful trial, one a failure, and two have no
    trials.
    """
    names = [key_of(name) for name in ("dense", "conv2d", "pool", "softmax")]
    operators = [(1, [name]) for name in names]
    record(tmp_path / "log.json", RunStarted(operators, "OpEvoTuner"))
    text = report_text(tmp_path, autotvm_line(0), autotvm_line(1, "conv2d", error_no=4))
    assert "No: 3 operators without a successful trial." in text
    assert "How good? 8.000 ms for the operators with a successful trial;" in text
    assert "Total latency" not in text


@text_only
def test_the_unknown_part_of_a_tile_is_explained(tmp_path):
    text = report_text(tmp_path, autotvm_line(0))
    assert "? is the outermost part of a tile" in text


def test_many_operators_that_take_equally_long_are_shown(tmp_path):
    lines = [autotvm_line(0, f"dense{i}", latency=1e-3) for i in range(202)]
    assert "the 24 slowest of 202" in report_text(tmp_path, *lines)


@text_only
def test_values_that_always_failed_are_not_among_the_best(tmp_path):
    lines = [autotvm_line(i, tile=4 * 2**i, error_no=4 if i == 1 else 0) for i in range(2)]
    text = report_text(tmp_path, *lines)
    assert "inf ms" not in text
    assert "tile_x 2 ?x4 (16.000 ms)" in text


def test_characters_that_a_page_cannot_have_are_replaced_in_values_too(tmp_path):
    line = json.loads(autotvm_line(0))
    lines = []
    for choice in (["\x00"], ["a"]):
        line["config"]["entity"][2] = ["vec", "an", choice]
        lines.append(json.dumps(line))
    assert "\ufffd" in report_text(tmp_path, *lines)


def test_what_is_no_regular_file_is_not_overwritten(tmp_path):
    log = autotvm_log(tmp_path / "log.json", trials=4)
    with pytest.raises(ValueError, match="out must be a regular file, /dev/null is none"):
        report(log, out="/dev/null")


@text_only
def test_all_of_more_logs_than_there_are_colours_are_on_the_page(tmp_path):
    logs = [autotvm_log(tmp_path / f"{i}.json", trials=2) for i in range(2 * len(SERIES))]
    text = page_text(report(*logs, out=tmp_path / "report.html"))
    assert all(f"{log.name} : 4 trials of 2 tasks" in text for log in logs)
