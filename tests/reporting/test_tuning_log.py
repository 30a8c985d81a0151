"""Contents of a log: skipped lines, time, and what its journal adds."""

import json

import pytest
from compared_networks import compared
from synthetic_logs import autotvm_line, autotvm_log, meta_schedule_folder, meta_schedule_line

from autotvm_opevo.reporting.logs import open_logs
from autotvm_opevo.tuning.journal import BestConfirmed, Journal, NetworkCompared, RunHistory, RunStarted, TrialEnded
from autotvm_opevo.tuning.naming import task_key


@pytest.mark.parametrize(
    "line",
    [
        "[1, 2",
        "no JSON",
        "\x00",
        "[" * 200_000,
        '{"input": ["llvm", "dense", [], {}], "config": {"entity": [["tile_x", "sp", [-1',
    ],
)
def test_malformed_lines_are_counted(tmp_path, line):
    path = autotvm_log(tmp_path / "log.json", trials=4)
    with open(path, "a") as file:
        file.write(line)
    (log,) = open_logs([path])
    assert (len(log), log.malformed, log.unrelated) == (8, 1, 0)


@pytest.mark.parametrize(
    "record",
    [
        [],
        {},
        None,
        7,
        "text",
        {"input": []},
        {"input": ["llvm", "dense", [], {}], "config": {}, "result": [[1.0], 0, 1, 1]},
        {"input": ["llvm", "dense", [], {}], "config": {"entity": []}, "result": [[], 0, 1, 1]},
        {"input": ["llvm", "dense", [], {}], "config": {"entity": []}, "result": [[1.0], 99, 1, 1]},
        {"input": ["llvm", "dense", [], {}], "config": {"entity": [["x", "sp", ["a"]]]}, "result": [[1.0], 0, 1, 1]},
        {"input": ["llvm", "dense", [], {}], "config": {"entity": [["x", "ot", 1]]}, "result": [["a"], 0, 1, 1]},
        {"input": ["llvm", "dense", [], {}], "config": {"entity": [["x", "sp", [-1, 0]]]}, "result": [[1.0], 0, 1, 1]},
        [0, [[[["Annotate", ["b0", ["v"]], [7], []]], []], [1.0], {"kind": "llvm"}, []]],
        [0, [[[["SampleCategorical", [], [[[1], [2]], [0.5, 0.5]], ["v"]]], [[0, [1]]]], [1.0], {"kind": "llvm"}, []]],
    ],
)
def test_unrelated_lines_are_counted(tmp_path, record):
    autotvm, meta_schedule = autotvm_log(tmp_path / "log.json", trials=4), meta_schedule_folder(tmp_path / "folder")
    for path in (autotvm, meta_schedule / "database_tuning_record.json"):
        with open(path, "a") as file:
            file.write(json.dumps(record) + "\n")
    assert [(log.malformed, log.unrelated) for log in open_logs([autotvm, meta_schedule])] == [(0, 1), (0, 1)]


def test_time_is_attributed_to_the_task_that_was_measured(tmp_path):
    """Two batches of dense and, between them, one of conv2d whose trials ended at the same time."""
    path = tmp_path / "log.json"
    times = [("dense", 0), ("dense", 10), ("conv2d", 70), ("conv2d", 70), ("dense", 75)]
    path.write_text("\n".join(autotvm_line(time, template, tile=i + 1) for i, (template, time) in enumerate(times)))
    (log,) = open_logs([path])
    dense, conv2d = log.tasks.values()
    assert list(dense.elapsed) == [0, 10, 15]
    assert list(conv2d.elapsed) == [60, 60]
    assert list(log.elapsed) == [0, 10, 70, 70, 75]


def test_an_unknown_timestamp_leaves_all_times_empty(tmp_path):
    path = tmp_path / "log.json"
    path.write_text("\n".join([autotvm_line(0), autotvm_line(50, "conv2d").replace("1795000050.0", "NaN"), autotvm_line(100)]))
    (log,) = open_logs([path])
    assert all(len(task.elapsed) == 0 for task in log.tasks.values())
    assert len(log.elapsed) == 0


def test_error_messages_come_from_the_journal(tmp_path):
    path = autotvm_log(tmp_path / "log.json")
    journal = Journal(f"{path}.journal")
    name = task_key("llvm", "dense", [["TENSOR", [1, 64], "float32"]])
    for message in ("no device", "too many threads", "too many threads"):
        journal.write(TrialEnded(name, failure="runtime device", message=message))
    dense, conv2d = open_logs([path])[0].tasks.values()
    assert dense.messages["runtime device"].most_common(1) == [("too many threads", 2)]
    assert conv2d.messages == {}


def test_runs_come_from_the_journal(tmp_path):
    """One entry when a run starts, and another when it ends."""
    path = autotvm_log(tmp_path / "log.json")
    journal = Journal(f"{path}.journal")
    journal.write(RunStarted([(2, ["dense"])], "OpEvoTuner"))
    assert open_logs([path])[0].runs.operators == {("dense",): 2}
    journal.write(NetworkCompared.of(compared(0.2, 0.1, noise=0).rounds))
    runs = open_logs([path])[0].runs
    assert (runs.operators, runs.tuners) == ({("dense",): 2}, ["OpEvoTuner"])
    assert runs.latency == pytest.approx((0.2, 0.1))
    assert runs.speedup == pytest.approx((2, 2, 2))


def test_a_new_network_discards_the_latency_of_the_last_one(tmp_path):
    path = autotvm_log(tmp_path / "log.json")
    journal = Journal(f"{path}.journal")
    journal.write(NetworkCompared.of(compared(0.2, 0.1, noise=0).rounds))
    journal.write(RunStarted([(1, ["conv2d"])], "OpEvoTuner"))
    (log,) = open_logs([path])
    assert (log.runs.operators, log.runs.latency, log.runs.speedup) == ({("conv2d",): 1}, None, None)


def test_timestamps_and_failures_come_from_a_journal_of_all_trials(tmp_path):
    folder = meta_schedule_folder(tmp_path / "folder")
    journal = Journal(folder / "journal")
    for trial in range(8):
        journal.write(TrialEnded("1234", failure="run timeout" if trial == 5 else "", message="killed" if trial == 5 else ""))
    (task,) = open_logs([folder])[0].tasks.values()
    assert len(task.elapsed) == 8
    assert dict(task.failures) == {"run timeout": 1}
    journal.write(TrialEnded("1234"))  # the database has no record of this candidate
    (task,) = open_logs([folder])[0].tasks.values()
    assert len(task.elapsed) == 0
    assert dict(task.failures) == {"failed": 1}


@pytest.mark.parametrize(
    "line",
    [
        "",
        "[",
        "3",
        "null",
        '{"time": 1, "type": "RunStarted", "operators": [[Infinity, []]], "tuner": ""}',
        '{"time": "soon", "type": "MeasuringBegan"}',
        '{"time": 1, "type": "NetworkCompared", "before": 1}',
        '{"time": 1, "type": "RunStarted", "operators": [[0, ["dense"]]], "tuner": ""}',
    ],
)
def test_invalid_journal_lines_are_skipped(tmp_path, line):
    path = autotvm_log(tmp_path / "log.json")
    (tmp_path / "log.json.journal").write_text(line + "\n")
    (log,) = open_logs([path])
    assert log.runs == RunHistory()
    assert not any(task.messages for task in log.tasks.values())


def test_a_confirmation_that_may_be_another_target_s_is_none(tmp_path):
    """The journal of a MetaSchedule work directory knows workloads, not targets."""
    folder = meta_schedule_folder(tmp_path / "log")
    records = folder / "database_tuning_record.json"
    Journal(folder / "journal").write(BestConfirmed("1234", "", [2e-3], 2e-3))
    (log,) = open_logs([folder])
    assert [task.latency for task in log.tasks.values()] == [2e-3]
    records.write_text(records.read_text() + meta_schedule_line((64, 1), 0, 5e-4).replace("llvm", "cuda") + "\n")
    (log,) = open_logs([folder])
    assert [task.latency for task in log.tasks.values()] == [1e-3, 5e-4]
