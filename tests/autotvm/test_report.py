"""Reports of AutoTVM's own logs, where templates are known."""

import json

import pytest
from small_templates import matmul_task
from tvm.autotvm import record
from tvm.autotvm.measure import MeasureInput, MeasureResult

from autotvm_opevo.autotvm.space import KnobSpace
from autotvm_opevo.reporting.autotvm_spaces import Template
from autotvm_opevo.reporting.knob_graphs import knob_graph
from autotvm_opevo.reporting.logs import open_logs
from autotvm_opevo.reporting.trials import Value


@pytest.fixture
def log(tmp_path):
    """Five records of a task with knobs of every family, as AutoTVM writes them."""
    task = matmul_task()
    path = tmp_path / "log.json"
    lines = []
    for index in (0, 7, 30, 77, 123):
        measured = MeasureInput(task.target, task, task.config_space.get(index))
        lines.append(record.encode(measured, MeasureResult([1e-3 * (index + 1)], 0, 0.5, 1.795e9 + index)))
    path.write_text("\n".join(lines) + "\n")
    return path


def only_task(log):
    (task,) = open_logs([log])[0].tasks.values()
    return task


def test_graphs_are_the_templates_whole_ones(log):
    task, space = only_task(log), KnobSpace(matmul_task().config_space).space
    template = Template(task)
    for name, knob in task.knobs.items():
        graph = knob_graph(name, *template.knob(name, knob))
        assert set(graph.topology) == set(space.knobs[name])
        assert graph.size == space.knobs[name].size
        assert sum(seen.trials for seen in graph.seen.values()) == 5
        assert min(seen.latency for seen in graph.seen.values()) == 1e-3


def test_a_tile_has_the_part_that_the_log_leaves_open(log):
    task = only_task(log)
    template = Template(task)
    for _, _, knobs in task.top:
        whole = template.value("tile_x", knobs["tile_x"])
        assert whole.kind == "tile"
        assert whole.value[0] * whole.value[1] * whole.value[2] == 16
        assert whole.value[1:] == knobs["tile_x"].value


def test_a_template_that_nobody_knows_leaves_the_values_that_were_seen(log):
    said = [json.loads(line) for line in log.read_text().splitlines()]
    for line in said:
        line["input"][1] = "elsewhere/matmul"
    log.write_text("\n".join(map(json.dumps, said)))
    task = only_task(log)
    template = Template(task)
    knob, topology = template.knob("tile_x", task.knobs["tile_x"])
    assert topology is None
    assert knob is task.knobs["tile_x"]
    value = Value("inner tile", (2, 8))
    assert template.value("tile_x", value) is value


def test_a_template_that_was_another_then_leaves_them_too(log):
    said = [json.loads(line) for line in log.read_text().splitlines()]
    said[0]["config"]["entity"][1] = ["tile_x", "sp", [-1, 3, 5]]
    log.write_text("\n".join(map(json.dumps, said)))
    task = only_task(log)
    assert Template(task).knob("tile_x", task.knobs["tile_x"])[1] is None
    assert Template(task).knob("tile_y", task.knobs["tile_y"])[1] is not None
