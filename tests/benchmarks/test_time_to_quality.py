"""What a log held at a moment, and the benchmarks of time as commands."""

import json

import pytest
from instant_measuring import measured, result
from small_templates import matmul_task
from tvm.autotvm import record

from benchmarks import time_to_quality
from benchmarks.time_to_quality import best_until, stages

TASKS = [matmul_task(16), matmul_task(32)]


def write_log(path, trials):
    """A log of (task, configuration, seconds or None, timestamp)."""
    lines = [
        record.encode(
            measured(TASKS[task], TASKS[task].config_space.get(i)),
            result(seconds)._replace(timestamp=moment),
        )
        + "\n"
        for task, i, seconds, moment in trials
    ]
    path.write_text("".join(lines))
    return path


TRIALS = [(0, 0, None, 1.0), (0, 1, 3.0, 2.0), (1, 0, 5.0, 3.0), (0, 2, 2.0, 4.0), (1, 1, 6.0, 5.0)]


@pytest.mark.parametrize(
    ("moment", "trials", "best"),
    [(0.5, 0, []), (1.5, 1, []), (3.5, 3, [3.0, 5.0]), (4.5, 4, [2.0, 5.0]), (9.0, 5, [2.0, 5.0])],
)
def test_the_best_of_each_task_until_a_moment(tmp_path, moment, trials, best):
    log = write_log(tmp_path / "log.json", TRIALS)
    assert best_until(log, moment, tmp_path / "best") == trials
    found = [
        json.loads(line)["result"][0][0] for line in (tmp_path / "best").read_text().splitlines()
    ]
    assert found == best


def test_the_last_stage_is_the_confirmed_one(tmp_path):
    log = write_log(tmp_path / "log.json", TRIALS)
    assert [stage["trials"] for stage in stages(log, 0.0, 8.0, 10.0)] == [1, 2, 5, 5]
    assert stages(log, 0.0, 8.0, 10.0)[-1]["seconds"] == 8.0
    (tmp_path / "log.best.json").write_text("")
    assert stages(log, 0.0, 10.0, 10.0)[-1]["file"] == str(tmp_path / "log.best.json")


def test_after_a_share_of_the_time_there_is_no_other_stage(tmp_path):
    log = write_log(tmp_path / "log.json", TRIALS)
    (tmp_path / "log.best.json").write_text("")
    found = stages(log, 0.0, 4.5, 10.0, share=0.4)
    assert [(stage["seconds"], stage["trials"]) for stage in found] == [
        (1.0, 1),
        (2.0, 2),
        (4.5, 4),
    ]
    assert found[-1]["file"] == str(tmp_path / "log.best.json")


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_a_small_network(tmp_path, monkeypatch, capsys):
    options = ["--networks", "mlp", "--trials", "12", "--repetitions", "1", "--rounds", "1"]
    monkeypatch.setattr(
        "sys.argv", ["benchmark", *options, "--target", "llvm", "--out", str(tmp_path)]
    )
    time_to_quality.main()
    assert "XGBTuner, tutorial" in capsys.readouterr().out
