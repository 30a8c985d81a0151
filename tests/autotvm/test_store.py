"""The store of a log's trials: the best records of other networks."""

from math import inf
from pathlib import Path
from types import SimpleNamespace

import pytest
from small_networks import TARGET, one_layer, two_layers
from tvm import target
from tvm.autotvm.measure import MeasureErrorNo, MeasureInput, MeasureResult
from tvm.autotvm.record import encode

from autotvm_opevo.autotvm.extraction import extract
from autotvm_opevo.autotvm.log import key_of
from autotvm_opevo.autotvm.store import TrialStore
from autotvm_opevo.tuning.record_lines import task_key
from autotvm_opevo.tuning.run_log import Runs


@pytest.fixture(scope="module")
def tasks():
    return extract(two_layers(), TARGET)[0]


def record(task, seconds, time=1.0, target=TARGET):
    """A trial of a task; one without seconds has failed."""
    if seconds == inf:
        return MeasureInput(target, task, None), MeasureResult(
            (RuntimeError(),), MeasureErrorNo.RUNTIME_DEVICE, 0.1, time
        )
    return MeasureInput(target, task, None), MeasureResult((seconds,), 0, 0.1, time)


def best(records, confirmed=(), own=(), log=Path("none.json"), left_out=(), written=0.0):
    store = TrialStore(log)
    runs = Runs(left_out=set(left_out), best_written=written)
    store.records, store.run_log = records, SimpleNamespace(runs=runs)
    store.confirmed = {key_of(one[0].target, one[0].task): one for one in confirmed}
    return store.best_of_others([task.workload for task in own])


def test_each_task_of_another_network_has_its_fastest_record(tasks):
    records = [record(task, seconds) for seconds in (3.0, 1.0, 2.0) for task in tasks]
    assert best(records) == records[len(tasks) : 2 * len(tasks)]


def test_the_networks_own_tasks_and_those_without_success_have_none(tasks):
    first, second, third = tasks
    records = [record(first, 1.0), record(second, inf), record(third, 1.0)]
    assert best(records, own=[first]) == [records[2]]


def test_a_confirmed_record_is_kept_unless_a_later_one_is_faster(tasks):
    lucky, confirmed = record(tasks[0], 1.0, time=1.0), record(tasks[0], 2.0, time=2.0)
    slower, faster = record(tasks[0], 3.0, time=3.0), record(tasks[0], 1.5, time=3.0)
    assert best([lucky], [confirmed]) == [confirmed]
    assert best([lucky, slower], [confirmed]) == [confirmed]
    assert best([lucky, faster], [confirmed]) == [faster]


def test_of_a_workload_for_two_targets_the_last_is_kept(tasks):
    """``apply_history_best`` would take the fastest, though it was found for another CPU."""
    other = target.Target("llvm -mcpu=core-avx2")
    records = [record(tasks[0], 1.0, target=other), record(tasks[0], 2.0)]
    assert best(records) == [records[1]]
    assert best(records, own=extract(one_layer(), TARGET)[0]) == [records[1]]


def test_what_was_chosen_is_kept_until_another_trial_follows(tasks, tmp_path):
    file = tmp_path / "log.best.json"
    config = tasks[0].config_space.get(0)
    chosen = MeasureInput(TARGET, tasks[0], config), MeasureResult((2.0,), 0, 0.1, 1.0)
    file.write_text(encode(*chosen) + "\n")
    with file.open("a") as damaged:
        damaged.write('\n{"input": ["llvm", "torn\nno record\n')
    written = {"log": tmp_path / "log.json", "written": 5.0}
    faster, later = record(tasks[0], 1.0, time=3.0), record(tasks[0], 1.5, time=7.0)
    ((measured, result),) = best([faster], **written)
    assert (str(measured.config), result.costs) == (str(config), (2.0,))
    assert best([faster, later], **written) == [faster]
    other = record(tasks[1], 1.0, time=3.0)
    left_out = {task_key(str(TARGET), tasks[1].name, tasks[1].args)}
    assert best([other], **written, left_out=left_out) == []
    assert best([other, record(tasks[1], 2.0, time=7.0)], **written, left_out=left_out) == [other]
    assert best([record(tasks[1], 1.0)], log=tmp_path / "log.json") == [record(tasks[1], 1.0)]
