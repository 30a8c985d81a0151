"""The report completes the tiles of an AutoTVM log from its run log."""

import pytest
from report_text import page_text
from small_templates import matmul_task
from tvm.autotvm import record
from tvm.autotvm.measure import MeasureInput, MeasureResult

from autotvm_opevo import report
from autotvm_opevo.reporting.logs import open_logs
from autotvm_opevo.tuning.run_log import ExtentsKnown, RunLog


def line(index):
    """A record of a task with knobs of all kinds, as AutoTVM writes it."""
    task = matmul_task()
    measured = MeasureInput(task.target, task, task.config_space.get(index))
    return record.encode(measured, MeasureResult([1e-3 * (index + 1)], 0, 0.5, 1.795e9 + index))


@pytest.fixture
def log(tmp_path):
    """A log of five records."""
    (tmp_path / "log.json").write_text("\n".join(map(line, (0, 7, 30, 77, 123))) + "\n")
    return tmp_path / "log.json"


def write_extent(log, extent):
    """In the run log of a log: the extent of the loop that tile_x splits."""
    (task,) = open_logs([log])[0].tasks.values()
    RunLog(f"{log}.journal").write(ExtentsKnown({task.run_log_key: {"tile_x": extent}}))


def text_of(tmp_path, *logs):
    return page_text(report(*logs, out=tmp_path / "report.html"))


def test_tiles_have_the_part_that_the_log_omits(log, tmp_path):
    assert "tile_x: ?x" in text_of(tmp_path, log)
    write_extent(log, 16)
    text = text_of(tmp_path, log)
    assert "tile_x: 16x1x1" in text
    assert "tile_x: ?x" not in text


def test_of_a_tile_that_does_not_divide_its_loop_that_part_is_unknown(log, tmp_path):
    write_extent(log, 2)
    text = text_of(tmp_path, log)
    assert "tile_x: 2x1x1" in text
    assert "tile_x: ?x" in text


def test_tiles_of_loops_with_one_iteration_are_left_out(log, tmp_path):
    write_extent(log, 1)
    assert "tile_x: 1x1x1" not in text_of(tmp_path, log)


def test_one_run_log_is_enough_for_several_logs(log, tmp_path):
    write_extent(log, 16)
    (tmp_path / "earlier.json").write_bytes(log.read_bytes())
    assert "tile_x: ?x" not in text_of(tmp_path, tmp_path / "earlier.json", log)
