"""Completing the knobs of an AutoTVM log from its run log."""

import json
import re

import pytest
from report_text import page_text
from small_templates import matmul_task
from tvm.autotvm import record
from tvm.autotvm.measure import MeasureInput, MeasureResult

from autotvm_opevo import report
from autotvm_opevo.autotvm.space import KnobSpace
from autotvm_opevo.reporting.knob_graphs import complete_knobs
from autotvm_opevo.reporting.logs import open_logs
from autotvm_opevo.topology import InducedSubgraph, Tiling
from autotvm_opevo.topology.serialization import knobs_to_json
from autotvm_opevo.tuning.run_log import KnobsMapped, RunLog


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


@pytest.fixture
def known(log):
    """The log, with its knobs in a run log."""
    knobs = KnobSpace(matmul_task().config_space).space.knobs
    event = KnobsMapped({only_task(log).run_log_key: knobs_to_json(knobs)})
    RunLog(f"{log}.journal").write(event)
    return log


def only_task(log):
    (task,) = open_logs([log])[0].tasks.values()
    return task


def knobs(path):
    """The knobs of a log's task by name, completed from its run log, and the task."""
    (log,) = open_logs([path])
    (task,) = log.tasks.values()
    recorded = log.runs.knobs.get(task.run_log_key, {})
    return {knob.name: knob for knob in complete_knobs([task], recorded)}, task


def test_graphs_have_all_vertices(known):
    space = KnobSpace(matmul_task().config_space).space
    for name, knob in knobs(known)[0].items():
        assert set(knob.topology) == set(space.knobs[name])
        assert knob.size == space.knobs[name].size
        assert sum(map(len, knob.latencies.values())) == 5
        assert min(map(knob.best, knob.latencies)) == 1e-3


def test_tiles_have_the_part_that_the_log_omits(known):
    records = map(json.loads, known.read_text().splitlines())
    inner = {tuple(record["config"]["entity"][1][2][1:]) for record in records}
    _, task = knobs(known)
    tiles = {trial.knobs["tile_x"] for trial in task.trials}
    assert {tile.kind for tile in tiles} == {"tile"}
    assert {tile.value[0] * tile.value[1] * tile.value[2] for tile in tiles} == {16}
    assert {tile.value[1:] for tile in tiles} == inner


def test_without_a_run_log_tiles_lack_a_part(log):
    knob = knobs(log)[0]["tile_x"]
    assert (knob.kind, knob.full) == ("inner tile", None)


def test_knobs_that_do_not_fit_are_unchanged(known):
    records = [json.loads(line) for line in known.read_text().splitlines()]
    records[0]["config"]["entity"][1] = ["tile_x", "sp", [-1, 3, 5]]
    known.write_text("\n".join(map(json.dumps, records)))
    completed, _ = knobs(known)
    assert completed["tile_x"].full is None
    assert completed["tile_y"].full is not None


def test_one_run_log_is_enough_for_several_logs(known, tmp_path):
    (tmp_path / "earlier.json").write_bytes(known.read_bytes())
    text = page_text(report(tmp_path / "earlier.json", known, out=tmp_path / "report.html"))
    assert re.search(r"tile_x : \d of 15 values tried", text)


def test_of_tiles_with_tails_that_a_log_has_in_full_the_inner_parts_are_the_vertices(tmp_path):
    """As with ``policy="candidate"``."""
    tiles = InducedSubgraph(Tiling([(8,), (4,), (10,)]), [(8,), (4,), (10,)])
    task = json.dumps(["llvm", "elsewhere/matmul", []])
    fields = {**json.loads(line(0)), "input": ["llvm", "elsewhere/matmul", [], {}]}
    log = tmp_path / "log.json"
    lines = []
    for tile in ([8, 8], [7, 10]):
        fields["config"]["entity"] = [["tile_x", "sp", tile]]
        lines.append(json.dumps(fields))
    log.write_text("\n".join(lines))
    assert only_task(log).key == task
    RunLog(f"{log}.journal").write(KnobsMapped({task: knobs_to_json({"tile_x": tiles})}))
    knob = knobs(log)[0]["tile_x"]
    assert list(knob.topology) == [(8,), (4,), (10,)]
    assert set(knob.latencies) == {(8,), (10,)}
