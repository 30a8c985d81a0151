"""Completing the knobs of an AutoTVM log from its journal."""

import json

import pytest
from small_templates import matmul_task
from tvm.autotvm import record
from tvm.autotvm.measure import MeasureInput, MeasureResult

from autotvm_opevo.autotvm.space import KnobSpace
from autotvm_opevo.reporting.knob_graphs import KnobSpaces, knob_graph
from autotvm_opevo.reporting.logs import open_logs
from autotvm_opevo.reporting.network import Network
from autotvm_opevo.reporting.trials import Value
from autotvm_opevo.topology import InducedSubgraph, Tiling
from autotvm_opevo.tuning.journal import Journal, KnobsMapped


def first_line():
    task = matmul_task()
    measured = MeasureInput(task.target, task, task.config_space.get(0))
    return record.encode(measured, MeasureResult([1e-3], 0, 0.5, 1.795e9))


def write_log(path):
    """Five records of a task with knobs of all kinds, as AutoTVM writes them."""
    task = matmul_task()
    lines = []
    for index in (0, 7, 30, 77, 123):
        measured = MeasureInput(task.target, task, task.config_space.get(index))
        lines.append(
            record.encode(measured, MeasureResult([1e-3 * (index + 1)], 0, 0.5, 1.795e9 + index))
        )
    path.write_text("\n".join(lines) + "\n")


@pytest.fixture
def log(tmp_path):
    write_log(tmp_path / "log.json")
    return tmp_path / "log.json"


@pytest.fixture
def known(log):
    """The log, with its knobs in a journal."""
    knobs = KnobSpace(matmul_task().config_space).space.knobs
    Journal(f"{log}.journal").write(KnobsMapped.of({only_task(log).example.key: knobs}))
    return log


def only_task(log):
    (task,) = Network(open_logs([log])).tasks
    return task


def test_graphs_have_all_vertices(known):
    task, space = only_task(known), KnobSpace(matmul_task().config_space).space
    spaces = KnobSpaces(task)
    for name, knob in task.knobs.items():
        graph = knob_graph(name, *spaces.complete_knob(name, knob))
        assert set(graph.topology) == set(space.knobs[name])
        assert graph.size == space.knobs[name].size
        assert sum(stats.trials for stats in graph.stats.values()) == 5
        assert min(stats.best for stats in graph.stats.values()) == 1e-3


def test_tiles_have_the_part_that_the_log_omits(known):
    task = only_task(known)
    spaces = KnobSpaces(task)
    for _, _, knobs in task.example.top:
        complete = spaces.complete("tile_x", knobs["tile_x"])
        assert complete.kind == "tile"
        assert complete.value[0] * complete.value[1] * complete.value[2] == 16
        assert complete.value[1:] == knobs["tile_x"].value


def test_without_a_journal_knobs_are_unchanged(log):
    task = only_task(log)
    spaces = KnobSpaces(task)
    knob, topology = spaces.complete_knob("tile_x", task.knobs["tile_x"])
    assert topology is None
    assert knob is task.knobs["tile_x"]
    value = Value("inner tile", (2, 8))
    assert spaces.complete("tile_x", value) is value


def test_knobs_that_do_not_fit_are_unchanged(known):
    records = [json.loads(line) for line in known.read_text().splitlines()]
    records[0]["config"]["entity"][1] = ["tile_x", "sp", [-1, 3, 5]]
    known.write_text("\n".join(map(json.dumps, records)))
    task = only_task(known)
    spaces = KnobSpaces(task)
    assert spaces.complete_knob("tile_x", task.knobs["tile_x"])[1] is None
    assert spaces.complete_knob("tile_y", task.knobs["tile_y"])[1] is not None


def test_one_journal_is_enough_for_several_logs(known, tmp_path):
    (tmp_path / "earlier.json").write_bytes(known.read_bytes())
    (task,) = Network(open_logs([tmp_path / "earlier.json", known])).tasks
    assert KnobSpaces(task).known


def test_of_tiles_with_tails_that_a_log_has_in_full_the_inner_parts_are_the_vertices(tmp_path):
    """As with ``policy="candidate"``."""
    tiles = InducedSubgraph(Tiling([(8,), (4,), (10,)]), [(8,), (4,), (10,)])
    task = json.dumps(["llvm", "elsewhere/matmul", []])
    line = json.loads(first_line())
    line["input"] = ["llvm", "elsewhere/matmul", [], {}]
    log = tmp_path / "log.json"
    lines = []
    for tile in ([8, 8], [7, 10]):
        line["config"]["entity"] = [["tile_x", "sp", tile]]
        lines.append(json.dumps(line))
    log.write_text("\n".join(lines))
    found = only_task(log)
    assert found.example.key == task
    Journal(f"{log}.journal").write(KnobsMapped.of({task: {"tile_x": tiles}}))
    found = only_task(log)
    knob, topology = KnobSpaces(found).complete_knob("tile_x", found.knobs["tile_x"])
    assert list(topology) == [(8,), (4,), (10,)]
    assert set(knob.stats) == {(8,), (10,)}
