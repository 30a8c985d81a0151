"""Parsing of AutoTVM logs."""

import pytest
from synthetic_logs import autotvm_line, autotvm_log, record, write_log

from autotvm_opevo.reporting.logs import open_logs
from autotvm_opevo.tuning.record_lines import task_key
from autotvm_opevo.tuning.run_log import RunStarted


def test_trials_are_grouped_by_task(tmp_path):
    (log,) = open_logs([autotvm_log(tmp_path / "log.json")])
    assert (len(log), log.malformed, log.unrelated) == (64, 0, 0)
    dense, conv2d = log.tasks.values()
    assert (dense.name, len(dense), dict(dense.failures)) == (
        "dense 1x64",
        32,
        {"runtime device": 4},
    )
    assert conv2d.name == "conv2d 1x64"
    assert (dense.best, dense.latencies.argmin()) == (0.001, 6)
    assert list(dense.latencies[:7] * 1e3) == pytest.approx([64, 32, 16, 8, 4, 2, 1])
    assert [trial.time for trial in dense.trials[:2]] == [1.795e9, 1.795e9 + 1]
    knobs = dense.trials[6].knobs
    assert {name: value.kind for name, value in knobs.items()} == {
        "tile_x": "inner tile",
        "order": "order",
        "vec": "annotation",
        "unroll": "number",
    }
    assert knobs["tile_x"].value == (64,)


def test_a_success_without_a_valid_latency_is_a_failure(tmp_path):
    lines = (autotvm_line(i, latency=one) for i, one in enumerate([1e-3, -1.0, float("inf")]))
    (task,) = open_logs([write_log(tmp_path / "log.json", *lines)])[0].tasks.values()
    assert (task.best, dict(task.failures)) == (1e-3, {"unknown": 2})


def test_unprintable_characters_are_replaced(tmp_path):
    path = write_log(tmp_path / "log.json", autotvm_line(0, template="conv\x00\ud8002d"))
    (task,) = open_logs([path])[0].tasks.values()
    assert task.name == "conv\ufffd\ufffd2d 1x64"


def test_joined_files_are_read_record_by_record(tmp_path):
    one, other, third = (autotvm_line(i) for i in range(3))
    lines = [
        f"\ufeff{one}{other}\r",
        third[:50] + third,
        f"# {autotvm_line(3)}",
        "Killed",
    ]
    (log,) = open_logs([write_log(tmp_path / "log.json", *lines)])
    assert (len(log), log.malformed, log.unrelated) == (3, 2, 0)


def test_the_run_log_has_a_task_under_the_target_that_its_run_wrote(tmp_path):
    target = "c -keys=cpu -workspace-byte-alignment=8"  # which this TVM still has
    lines = [
        autotvm_line(i).replace('"llvm"', f'"{text}"')
        for i, text in enumerate((f"{target} -link-params=0", target))
    ]
    path = write_log(tmp_path / "log.json", *lines)
    key = task_key(target, "dense", [["TENSOR", [1, 64], "float32"]])
    record(path, RunStarted([(3, [key])], "OpEvoTuner", names={key: "the layer"}))
    (task,) = open_logs([path])[0].tasks.values()
    assert (len(task), task.name) == (2, "the layer")
