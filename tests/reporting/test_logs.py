"""Logs: paths, labels, names of tasks, skipped lines, time, and what a run log adds."""

import json
import os

import pytest
from compared_networks import compared
from synthetic_logs import (
    DENSE,
    autotvm_line,
    autotvm_log,
    meta_schedule_folder,
    meta_schedule_line,
    record,
    write_log,
)

from autotvm_opevo.reporting.logs import input_files, open_logs
from autotvm_opevo.tuning.run_log import BestConfirmed, NetworkCompared, RunStarted, TrialEnded


def _write(path, text):
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda folder: [], "logs must be at least one"),
        (
            lambda folder: [folder],
            "or a folder of some; it contains no log NAME.json or NAME.log and no database_tuning_",
        ),
        (lambda folder: [autotvm_log(folder / "a")] * 2, "is given twice"),
        (
            lambda folder: [_write(folder / "notes.md", "# Notes\nnot a log\nof anything")],
            "none of its lines is a trial",
        ),
    ],
)
def test_invalid_paths_are_refused(tmp_path, make, message):
    with pytest.raises(ValueError, match=message):
        open_logs(make(tmp_path))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "there is none in .* yet"),
        ('{"input": ["ll', "there is none in .* yet"),
        ("no log", "there is none in .* yet"),
        ("no log\n", "none of its lines is a trial"),
    ],
)
def test_a_first_line_may_be_incomplete(tmp_path, text, problem):
    path = _write(tmp_path / "log.json", text)
    with pytest.raises(ValueError, match=problem):
        open_logs([path])


def test_a_pipe_is_refused_before_a_part_of_it_is_lost(tmp_path):
    read_end, write_end = os.pipe()
    os.write(write_end, autotvm_log(tmp_path / "log.json").read_bytes())
    os.close(write_end)
    with os.fdopen(read_end), pytest.raises(ValueError, match="must be a regular file"):
        open_logs([f"/dev/fd/{read_end}"])


def test_a_log_without_a_trial_is_an_error(tmp_path):
    full, empty = autotvm_log(tmp_path / "full.json"), _write(tmp_path / "empty.json", "")
    with pytest.raises(ValueError, match=r"must have trials, there is none in .*empty\.json yet"):
        open_logs([full, empty])


def test_a_folder_stands_for_the_autotvm_logs_in_it(tmp_path):
    logs = [autotvm_log(tmp_path / f"{name}.json") for name in ("b", "a")]
    record(logs[0], TrialEnded("dense"))
    autotvm_log(tmp_path / "a.best.json", trials=1)
    _write(tmp_path / "results.json", "[1, 2]")
    _write(tmp_path / "begun.json", "")
    assert [log.label for log in open_logs([tmp_path])] == ["a.json", "b.json"]
    assert {*input_files([tmp_path])} >= {log.resolve() for log in logs}
    autotvm_log(tmp_path / "begun.json")
    assert [log.label for log in open_logs([tmp_path])] == ["a.json", "b.json", "begun.json"]


def test_a_folder_stands_for_the_databases_in_it_and_for_logs_as_tvm_s_tutorials_name_them(
    tmp_path,
):
    autotvm_log(tmp_path / "resnet-18.log")
    meta_schedule_folder(tmp_path / "yesterday")
    _write(tmp_path / "notes.log", "started\n")
    assert [log.label for log in open_logs([tmp_path])] == ["resnet-18.log", "yesterday"]


def test_a_missing_log_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        open_logs([tmp_path / "missing.json"])


@pytest.mark.parametrize(
    ("old", "new", "names"),
    [
        (
            '"llvm"',
            '"llvm -mcpu=core-avx2"',
            ("dense 1x64 for llvm", "dense 1x64 for llvm -mcpu=core-avx2"),
        ),
        ('"float32"', '"float16"', ("dense 1x64", "dense 1x64 (2)")),
    ],
)
def test_tasks_with_equal_names_are_distinguished(tmp_path, old, new, names):
    path = write_log(tmp_path / "log.json", autotvm_line(0), autotvm_line(0).replace(old, new))
    assert tuple(task.name for task in open_logs([path])[0].tasks.values()) == names


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ('{"i": [["[]", "llvm"], [[], []]], "r": [[0.1], 0, 1, 1], "v": "v0.6"}', "a log of Ansor"),
        ('{"i": ["llvm"], "r": [[0.1], 0, 1, 1], "v": 0.1}\n', "a log in AutoTVM's format 0.1"),
        ("\x1f\x8b\x08\x00", "compressed with gzip: unpack it with gunzip"),
    ],
)
def test_a_file_of_another_format_is_refused_by_name(tmp_path, content, what):
    """Also if it is one line without an end, which a log may have."""
    (tmp_path / "log.json").write_bytes(content.encode("latin-1"))
    with pytest.raises(ValueError, match=f"none of its lines is a trial, it is {what}"):
        open_logs([tmp_path / "log.json"])


@pytest.mark.parametrize(
    "line",
    [
        "[1, 2",
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
        {
            "input": ["llvm", "dense", [], {}],
            "config": {"entity": [["x", "sp", ["a"]]]},
            "result": [[1.0], 0, 1, 1],
        },
        {
            "input": ["llvm", "dense", [], {}],
            "config": {"entity": [["x", "ot", 1]]},
            "result": [["a"], 0, 1, 1],
        },
        {
            "input": ["llvm", "dense", [], {}],
            "config": {"entity": [["x", "sp", [-1, 0]]]},
            "result": [[1.0], 0, 1, 1],
        },
        [0, [[[["Annotate", ["b0"], [7], []]], []], [1.0], {"kind": "llvm"}, []]],
        [
            0,
            [
                [[["SampleCategorical", [], [[[1], [2]], [0.5, 0.5]], ["v"]]], [[0, [1]]]],
                [1.0],
                {"kind": "llvm"},
                [],
            ],
        ],
    ],
)
def test_unrelated_lines_are_counted(tmp_path, record):
    autotvm, meta_schedule = (
        autotvm_log(tmp_path / "log.json", trials=4),
        meta_schedule_folder(tmp_path / "folder"),
    )
    for path in (autotvm, meta_schedule / "database_tuning_record.json"):
        with open(path, "a") as file:
            file.write(json.dumps(record) + "\n")
    assert [(log.malformed, log.unrelated) for log in open_logs([autotvm, meta_schedule])] == [
        (0, 1),
        (0, 1),
    ]


def test_time_is_attributed_to_the_task_that_was_measured(tmp_path):
    """Two batches of dense and, between them, one of conv2d whose trials ended at the same time."""
    times = [("dense", 0), ("dense", 10), ("conv2d", 70), ("conv2d", 70), ("dense", 75)]
    lines = (autotvm_line(time, template, tile=i) for i, (template, time) in enumerate(times, 1))
    (log,) = open_logs([write_log(tmp_path / "log.json", *lines)])
    dense, conv2d = log.tasks.values()
    assert list(dense.elapsed) == [0, 10, 15]
    assert list(conv2d.elapsed) == [60, 60]
    assert list(log.elapsed) == [0, 10, 70, 70, 75]


def test_error_messages_come_from_the_run_log(tmp_path):
    path = autotvm_log(tmp_path / "log.json")
    for message in ("no device", "too many threads", "too many threads"):
        record(path, TrialEnded(DENSE, failure="runtime device", message=message))
    dense, conv2d = open_logs([path])[0].tasks.values()
    assert dense.message_of("runtime device") == "too many threads"
    assert conv2d.messages == {}


def test_runs_come_from_the_run_log(tmp_path):
    """One entry when a run starts, and another when it ends."""
    path = autotvm_log(tmp_path / "log.json")
    record(path, RunStarted([(2, ["dense"])], "OpEvoTuner"))
    assert open_logs([path])[0].runs.networks == [{("dense",): 2}]
    record(path, NetworkCompared.of(compared(0.2, 0.1, noise=0).race))
    runs = open_logs([path])[0].runs
    assert (runs.networks, runs.tuners) == ([{("dense",): 2}], ["OpEvoTuner"])
    assert runs.latency == pytest.approx((0.2, 0.1))
    assert runs.speedup == pytest.approx((2, 2, 2))


def test_timestamps_and_failures_come_from_a_run_log_of_all_trials(tmp_path):
    folder = meta_schedule_folder(tmp_path / "folder")
    ended = TrialEnded("1234")
    record(folder, *[ended] * 5, TrialEnded("1234", "run timeout", "killed"), *[ended] * 2)
    (task,) = open_logs([folder])[0].tasks.values()
    assert len(task.elapsed) == 8
    assert dict(task.failures) == {"run timeout": 1}
    record(folder, ended)  # of a trial that has just ended
    (task,) = open_logs([folder])[0].tasks.values()
    assert len(task.elapsed) == 8
    record(folder, ended)  # the database lacks more
    (task,) = open_logs([folder])[0].tasks.values()
    assert len(task.elapsed) == 0
    assert dict(task.failures) == {"failed": 1}


@pytest.mark.parametrize(("runs", "known"), [(1, True), (0, False)])
def test_a_killed_run_may_lack_its_last_event(tmp_path, runs, known):
    folder = meta_schedule_folder(tmp_path / "folder")
    record(folder, *[RunStarted([], "")] * runs, *[TrialEnded("1234")] * 7)
    (task,) = open_logs([folder])[0].tasks.values()
    assert len(task.elapsed) == (8 if known else 0)


def test_a_network_that_was_lowered_for_two_targets_counts_once_for_each(tmp_path):
    """The run log of a MetaSchedule work directory knows workloads, not targets."""
    folder = meta_schedule_folder(tmp_path / "work")
    records = folder / "database_tuning_record.json"
    line = meta_schedule_line((64, 1), 0, 5e-4).replace("llvm", "cuda")
    records.write_text(f"{records.read_text()}{line}\n")
    for other in ("packed", "plain"):
        record(folder, RunStarted([(3, ["1234"]), (1, [other])], "OpEvo"))
    (log,) = open_logs([folder])
    assert [operator.count for operator in log.operators] == [3, 3]


def test_a_confirmation_that_may_be_another_target_s_is_none(tmp_path):
    """The run log of a MetaSchedule work directory knows workloads, not targets."""
    folder = meta_schedule_folder(tmp_path / "log")
    records = folder / "database_tuning_record.json"
    record(folder, BestConfirmed("1234", "", [2e-3]))
    (log,) = open_logs([folder])
    assert [task.latency for task in log.tasks.values()] == [2e-3]
    records.write_text(
        records.read_text() + meta_schedule_line((64, 1), 0, 5e-4).replace("llvm", "cuda") + "\n"
    )
    (log,) = open_logs([folder])
    assert [task.latency for task in log.tasks.values()] == [1e-3, 5e-4]
