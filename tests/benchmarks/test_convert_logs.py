"""Conversion of AutoTVM's logs to landscapes."""

import json

import numpy as np
import pytest
from tvm import autotvm, te, topi
from tvm.autotvm import record
from tvm.autotvm.measure import MeasureInput, MeasureResult
from tvm.autotvm.tuner import RandomTuner

from benchmarks import convert_logs, replay
from benchmarks.landscape import load

NAME = "laptop-dense_nopack-1-4-6-4"


@pytest.fixture(scope="module")
def task():
    """A space of 12 configurations."""
    assert topi  # registers the template
    tensors = te.placeholder((1, 4), name="X"), te.placeholder((6, 4), name="Y")
    return autotvm.task.create("dense_nopack.x86", (*tensors, None, "float32"), "llvm")


def log_of(task, results):
    """A log: the seconds of a configuration for each ``(index, seconds)``; None if it failed."""
    lines = []
    for index, seconds in results:
        measured = MeasureInput(task.target, task, task.config_space.get(index))
        failed = seconds is None
        result = MeasureResult((1e9,) if failed else (seconds, seconds), 4 if failed else 0, 1, 2)
        lines.append(record.encode(measured, result))
    return "".join(f"{line}\n" for line in lines)


@pytest.fixture
def logs(task, tmp_path):
    """Of two tuners, which measured the whole space together; the first measured configuration 2
    twice, and both failed at 3.
    """
    size = len(task.config_space)
    (tmp_path / "ga.log").write_text(
        log_of(task, [(i, 1e-3 * (1 + i)) for i in range(size) if i not in (3, 5)])
        + log_of(task, [(2, 4e-3), (3, None)])
    )
    (tmp_path / "xgb.log").write_text(log_of(task, [(2, 5e-3), (3, None), (5, 8e-3), (0, None)]))
    return [str(tmp_path / "ga.log"), str(tmp_path / "xgb.log")]


def test_logs_that_cover_a_space_become_a_landscape_that_tuners_search(task, logs, tmp_path):
    convert_logs.main([str(tmp_path / "out"), *logs, "--device", "laptop"])
    landscape = load(tmp_path / "out" / f"{NAME}.npz")
    assert len(landscape) == landscape.size == len(task.config_space)
    assert landscape.metadata["device"] == "laptop"
    # the median of what was measured; a failure only if it failed each time
    assert landscape.look_up(2) == (pytest.approx(4.0), 0)
    assert landscape.look_up(5) == (pytest.approx(8.0), 0)
    assert landscape.look_up(0) == (pytest.approx(1.0), 0)
    assert np.isnan(landscape.look_up(3)[0])
    assert landscape.look_up(3)[1] == 4
    made = replay.task(landscape)
    assert (made.name, made.args) == (task.name, task.args)
    tuner = RandomTuner(made)
    tuner.tune(len(made.config_space), replay.measure_option(landscape))
    assert tuner.best_config.index == 0


def test_spaces_that_are_not_covered_are_left_out(logs, tmp_path, capsys):
    arguments = [str(tmp_path / "out"), logs[0], "--device", "laptop"]
    convert_logs.main(arguments)
    assert "11 of 12 configurations, 9% failed: left out" in capsys.readouterr().out
    assert not list((tmp_path / "out").iterdir())
    convert_logs.main([*arguments, "--coverage", "0.9"])
    assert [file.stem for file in (tmp_path / "out").iterdir()] == [NAME]


def test_logs_of_another_space_are_refused(logs, tmp_path):
    with open(logs[0]) as log:
        fields = json.loads(log.readline())
    fields["config"]["index"] = 1
    (tmp_path / "old.log").write_text(json.dumps(fields) + "\n")
    with pytest.raises(SystemExit, match=r"configuration 1 of dense_nopack.x86 .* in the logs"):
        convert_logs.main([str(tmp_path / "out"), str(tmp_path / "old.log"), "--device", "laptop"])
