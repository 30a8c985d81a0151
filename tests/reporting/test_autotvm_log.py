"""Parsing of AutoTVM logs."""

import pytest
from synthetic_logs import autotvm_line, autotvm_log

from autotvm_opevo.reporting.logs import open_logs


def test_trials_are_grouped_by_task(tmp_path):
    (log,) = open_logs([autotvm_log(tmp_path / "log.json")])
    assert (len(log), log.malformed, log.unrelated) == (64, 0, 0)
    dense, conv2d = log.tasks.values()
    assert (dense.name, len(dense), dict(dense.failures)) == ("dense 1x64", 32, {"runtime device": 4})
    assert conv2d.name == "conv2d 1x64"
    assert (dense.best, dense.best_trial) == (0.001, 7)
    assert list(dense.best_so_far[:7] * 1e3) == pytest.approx([64, 32, 16, 8, 4, 2, 1])
    assert list(dense.times[:2]) == [1.795e9, 1.795e9 + 1]
    assert [latency for latency, _, _ in dense.top] == [0.001, 0.001, 0.001, 0.001, 0.002]
    assert {name: knob.kind for name, knob in dense.knobs.items()} == {
        "tile_x": "inner tile",
        "order": "order",
        "vec": "annotation",
        "unroll": "number",
    }
    assert dense.knobs["tile_x"].stats[64,].best == 0.001
    assert dense.knobs["tile_x"].stats[64,].trials == 4


def test_a_success_without_a_valid_latency_is_a_failure(tmp_path):
    path = tmp_path / "log.json"
    path.write_text("\n".join(autotvm_line(i, latency=latency) for i, latency in enumerate([1e-3, -1.0, float("inf")])))
    (task,) = open_logs([path])[0].tasks.values()
    assert (task.best, dict(task.failures)) == (1e-3, {"unknown": 2})


def test_unprintable_characters_are_replaced(tmp_path):
    path = tmp_path / "log.json"
    path.write_text(autotvm_line(0, template="conv\x00\ud8002d"))
    (task,) = open_logs([path])[0].tasks.values()
    assert task.name == "conv\ufffd\ufffd2d 1x64"
