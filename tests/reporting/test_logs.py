"""Logs of all kinds become trials, whatever else is in them."""

import json
import tracemalloc

import numpy as np
import pytest
from made_up_logs import autotvm_line, autotvm_log, meta_schedule_folder, meta_schedule_line

from autotvm_opevo.reporting.logs import open_logs, state
from autotvm_opevo.tuning.journal import Journal, Runs, read
from autotvm_opevo.tuning.naming import task_key
from autotvm_opevo.tuning.speedup import Speedup


def test_a_log_of_autotvm_is_read_task_by_task(tmp_path):
    (recording,) = open_logs([autotvm_log(tmp_path / "log.json")])
    assert (len(recording), recording.malformed, recording.unrelated) == (64, 0, 0)
    dense, conv2d = recording.tasks.values()
    assert (dense.name, len(dense), dict(dense.failures)) == ("dense 1x64", 32, {"runtime device": 4})
    assert conv2d.name == "conv2d 1x64"
    assert (dense.best, dense.best_at) == (0.001, 7)
    assert list(dense.best_so_far[:7] * 1e3) == pytest.approx([64, 32, 16, 8, 4, 2, 1])
    assert list(dense.times[:2]) == [1.795e9, 1.795e9 + 1]
    assert [latency for latency, _, _ in dense.top] == [0.001, 0.001, 0.001, 0.001, 0.002]
    assert {name: knob.kind for name, knob in dense.knobs.items()} == {
        "tile_x": "inner tile",
        "order": "order",
        "vec": "annotation",
        "unroll": "number",
    }
    assert dense.knobs["tile_x"].seen[64,].latency == 0.001
    assert dense.knobs["tile_x"].seen[64,].trials == 4


def test_what_is_measured_again_is_counted(tmp_path):
    path = tmp_path / "log.json"
    path.write_text("\n".join(autotvm_line(i, tile=8) for i in range(3)))
    (task,) = open_logs([path])[0].tasks.values()
    assert task.repeated == 2


def test_a_folder_of_metaschedule_is_read_with_its_sketches_and_options(tmp_path):
    (recording,) = open_logs([meta_schedule_folder(tmp_path / "folder")])
    (task,) = recording.tasks.values()
    assert (task.name, len(task), task.best, dict(task.failures)) == ("matmul 8x64 64x64", 8, 1e-3, {"failed": 1})
    assert np.isnan(task.times).all()
    assert task.knobs["matmul, loop 2, 64 iterations"].seen[32, 2].latency == 2e-3
    assert task.knobs["unroll explicit"].options == ("0", "16", "64")
    assert task.target == "llvm"
    assert list(task.knobs["sketch"].seen) == ["1"]


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
def test_torn_lines_are_counted(tmp_path, line):
    path = autotvm_log(tmp_path / "log.json", trials=4)
    with open(path, "a") as file:
        file.write(line)
    (recording,) = open_logs([path])
    assert (len(recording), recording.malformed, recording.unrelated) == (8, 1, 0)


@pytest.mark.parametrize(
    "said",
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
def test_lines_of_another_kind_are_counted(tmp_path, said):
    autotvm, meta_schedule = autotvm_log(tmp_path / "log.json", trials=4), meta_schedule_folder(tmp_path / "folder")
    for path in (autotvm, meta_schedule / "database_tuning_record.json"):
        with open(path, "a") as file:
            file.write(json.dumps(said) + "\n")
    assert [(recording.malformed, recording.unrelated) for recording in open_logs([autotvm, meta_schedule])] == [(0, 1), (0, 1)]


def test_a_success_that_took_no_time_is_a_failure(tmp_path):
    path = tmp_path / "log.json"
    path.write_text("\n".join(autotvm_line(i, latency=latency) for i, latency in enumerate([1e-3, -1.0, float("inf")])))
    (task,) = open_logs([path])[0].tasks.values()
    assert (task.best, dict(task.failures)) == (1e-3, {"unknown": 2})


def test_a_trial_takes_few_bytes_of_memory(tmp_path):
    """Of 20,000 trials; what they say of knobs is kept once."""
    path = autotvm_log(tmp_path / "log.json", trials=10_000)
    tracemalloc.start()
    (recording,) = open_logs([path])
    used, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(recording) == 20_000
    assert used / 20_000 < 60
    assert peak / 20_000 < 200


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda folder: [], "logs must be at least one"),
        (lambda folder: [folder], "must be a log of AutoTVM or the folder of a MetaSchedule database"),
        (lambda folder: [autotvm_log(folder / "a")] * 2, "is there twice"),
        (lambda folder: [_written(folder / "notes.md", "# Notes\nare no log\nof anything")], "no line of it is a trial"),
    ],
)
def test_what_is_no_log_is_refused(tmp_path, make, message):
    with pytest.raises(ValueError, match=message):
        open_logs(make(tmp_path))


def _written(path, text):
    path.write_text(text)
    return path


@pytest.mark.parametrize(("text", "fine"), [("", True), ('{"input": ["ll', True), ("no log", True), ("no log\n", False)])
def test_a_first_line_may_be_being_written(tmp_path, text, fine):
    path = _written(tmp_path / "log.json", text)
    if fine:
        assert len(open_logs([path])[0]) == 0
    else:
        with pytest.raises(ValueError, match="no line of it is a trial"):
            open_logs([path])


def test_a_log_that_does_not_exist_is_said(tmp_path):
    with pytest.raises(FileNotFoundError):
        open_logs([tmp_path / "missing.json"])
    (recording,) = open_logs([tmp_path / "missing.json"], must_exist=False)
    assert len(recording) == 0


def test_the_state_changes_when_a_log_grows(tmp_path):
    path = tmp_path / "log.json"
    states = [state([path])]
    for trials in (4, 8):
        autotvm_log(path, trials)
        states.append(state([path]))
    Journal(f"{path}.journal").write(task="dense")
    states.append(state([path]))
    assert len(set(states)) == 4


def test_time_is_spent_on_the_task_that_was_measured(tmp_path):
    """Two batches of dense, between them one of conv2d, whose trials ended all at once."""
    path = tmp_path / "log.json"
    times = [("dense", 0), ("dense", 10), ("conv2d", 70), ("conv2d", 70), ("dense", 75)]
    path.write_text("\n".join(autotvm_line(time, template) for template, time in times))
    (recording,) = open_logs([path])
    dense, conv2d = recording.tasks.values()
    assert list(dense.elapsed) == [0, 10, 15]
    assert list(conv2d.elapsed) == [60, 60]
    assert list(recording.elapsed) == [0, 10, 70, 70, 75]


def test_where_one_time_is_unknown_no_task_is_said_to_have_taken_any(tmp_path):
    path = tmp_path / "log.json"
    path.write_text("\n".join([autotvm_line(0), autotvm_line(50, "conv2d").replace("1795000050.0", "NaN"), autotvm_line(100)]))
    (recording,) = open_logs([path])
    assert all(len(task.elapsed) == 0 for task in recording.tasks.values())
    assert len(recording.elapsed) == 0


class TestJournal:
    def test_it_says_why_trials_of_autotvm_failed(self, tmp_path):
        path = autotvm_log(tmp_path / "log.json")
        journal = Journal(f"{path}.journal")
        name = task_key("llvm", "dense", [["TENSOR", [1, 64], "float32"]])
        for message in ("no device", "too many threads", "too many threads"):
            journal.write(task=name, failure="runtime device", message=message)
        dense, conv2d = open_logs([path])[0].tasks.values()
        assert dense.messages["runtime device"].most_common(1) == [("too many threads", 2)]
        assert conv2d.messages == {}

    def test_what_it_says_of_a_network_comes_in_parts(self, tmp_path):
        """When a run begins, and, if it comes to that, when it has ended."""
        path = autotvm_log(tmp_path / "log.json")
        journal = Journal(f"{path}.journal")
        journal.begin([(2, ["dense"])], "OpEvoTuner")
        assert open_logs([path])[0].runs.operators == {("dense",): 2}
        journal.comparison(Speedup([0.3, 0.1, 0.2], [0.1], 0.0, True))
        runs = open_logs([path])[0].runs
        assert (runs.operators, runs.tuners, runs.latency) == ({("dense",): 2}, ["OpEvoTuner"], (0.2, 0.1))

    def test_a_new_network_in_the_same_log_has_no_times_of_the_last_one(self, tmp_path):
        path = autotvm_log(tmp_path / "log.json")
        journal = Journal(f"{path}.journal")
        journal.comparison(Speedup([0.2], [0.1], 0.0, True))
        journal.begin([(1, ["conv2d"])], "OpEvoTuner")
        (recording,) = open_logs([path])
        assert (recording.runs.operators, recording.runs.latency) == ({("conv2d",): 1}, None)

    def test_it_gives_metaschedule_times_and_kinds_where_it_has_all_trials(self, tmp_path):
        folder = meta_schedule_folder(tmp_path / "folder")
        journal = Journal(folder / "journal")
        for trial in range(8):
            journal.write(task="1234", failure="run timeout" if trial == 5 else "", message="killed" if trial == 5 else "")
        (task,) = open_logs([folder])[0].tasks.values()
        assert len(task.elapsed) == 8
        assert dict(task.failures) == {"run timeout": 1}
        journal.write(task="1234")  # of a candidate that the database has not
        (task,) = open_logs([folder])[0].tasks.values()
        assert len(task.elapsed) == 0
        assert dict(task.failures) == {"failed": 1}

    def test_that_of_an_earlier_log_is_gone_when_a_log_begins(self, tmp_path):
        Journal(tmp_path / "journal").write(task="dense")
        Journal(tmp_path / "journal")
        assert (tmp_path / "journal").exists()
        Journal(tmp_path / "journal", anew=True)
        assert not (tmp_path / "journal").exists()

    def test_a_torn_line_does_not_swallow_the_next_one(self, tmp_path):
        path = tmp_path / "journal"
        path.write_text('{"task": "den')
        Journal(path).write(task="conv2d")
        assert [entry.task for entry in read(path)] == ["conv2d"]

    @pytest.mark.parametrize(
        "line",
        [
            "",
            "[",
            "3",
            "null",
            '{"time": 1, "network": {"operators": [[Infinity, []]]}}',
            '{"time": "soon"}',
            '{"time": 1, "network": {"before": 1}}',
            '{"time": 1, "network": {"operators": [[0, ["dense"]]]}}',
        ],
    )
    def test_a_line_that_is_none_changes_nothing(self, tmp_path, line):
        path = autotvm_log(tmp_path / "log.json")
        (tmp_path / "log.json.journal").write_text(line + "\n")
        (recording,) = open_logs([path])
        assert recording.runs == Runs()
        assert not any(task.messages for task in recording.tasks.values())

    def test_a_full_disk_is_said_once(self, tmp_path, caplog):
        journal = Journal(tmp_path / "no folder" / "journal")
        for _ in range(3):
            journal.write(task="dense")
        assert caplog.text.count("cannot write") == 1


@pytest.mark.parametrize(
    ("old", "new", "names"),
    [
        ('"llvm"', '"llvm -mcpu=core-avx2"', ("dense 1x64 for llvm", "dense 1x64 for llvm -mcpu=core-avx2")),
        ('"float32"', '"float16"', ("dense 1x64", "dense 1x64 (2)")),
    ],
)
def test_tasks_that_would_be_called_the_same_are_told_apart(tmp_path, old, new, names):
    path = tmp_path / "log.json"
    path.write_text("\n".join([autotvm_line(0), autotvm_line(0).replace(old, new)]))
    assert tuple(task.name for task in open_logs([path])[0].tasks.values()) == names


def test_a_sketch_has_the_same_number_in_every_log_and_however_many_loops_are_parallel(tmp_path):
    def lines(parallel, other):
        both = [
            meta_schedule_line((64, 1), 0, 1e-3),
            meta_schedule_line((64, 1), 0, 5e-3).replace('"matmul", "main"', '"other", "main"'),
        ]
        return [
            line.replace(
                '["EnterPostproc"', f'["Annotate", ["b0", {parallel}], ["meta_schedule.parallel"], []], ["EnterPostproc"'
            )
            for line in both
        ][::other]

    folders = [tmp_path / "a", tmp_path / "b"]
    for folder, parallel, order in zip(folders, (8, 32), (1, -1)):
        folder.mkdir()
        (folder / "database_tuning_record.json").write_text("\n".join(lines(parallel, order)))
        (folder / "database_workload.json").write_text('["1234", "..."]\n')
    for recording in open_logs(folders):
        (task,) = recording.tasks.values()
        assert {value: seen.latency for value, seen in task.knobs["sketch"].seen.items()} == {"1": 1e-3, "2": 5e-3}


def test_values_that_python_hashes_alike_are_different_trials(tmp_path):
    path = tmp_path / "log.json"
    path.write_text("\n".join(autotvm_line(0, unroll=unroll) for unroll in (-1, -2)))
    (task,) = open_logs([path])[0].tasks.values()
    assert task.repeated == 0


def test_what_no_page_can_show_is_replaced(tmp_path):
    path = tmp_path / "log.json"
    path.write_text(autotvm_line(0, template="conv\x00\ud8002d"))
    (task,) = open_logs([path])[0].tasks.values()
    assert task.name == "conv\ufffd\ufffd2d 1x64"


def test_best_so_far_is_that(tmp_path):
    (recording,) = open_logs([autotvm_log(tmp_path / "log.json")])
    for task in recording.tasks.values():
        assert np.array_equal(task.best_so_far, [task.latencies[: i + 1].min() for i in range(len(task))])
