"""Databases as sources, read without writing, in whatever state, and the prior on a CPU."""

import json

import numpy as np
import pytest
import tvm
from quick_network_tuning import instant, tune_module
from quick_tuning import SMALL, timed, tune
from relax_modules import network_of
from sketches import WORKLOADS, decision_space, decisions_of
from tvm import relax
from tvm.s_tir import meta_schedule as ms
from unoptimized import cpu

from autotvm_opevo.meta_schedule import (
    OpEvoStrategy,
    as_target,
    history,
    lower_for_tuning,
    open_database,
)
from autotvm_opevo.meta_schedule.database import commit, fitness
from autotvm_opevo.meta_schedule.history import describe_history, read_history
from autotvm_opevo.meta_schedule.strategy import prior
from autotvm_opevo.meta_schedule.task_search import TaskSearch
from autotvm_opevo.networks import relax as workloads
from autotvm_opevo.tuning.logs import RECORD_FILE, WORKLOAD_FILE
from autotvm_opevo.tuning.record_lines import seconds
from benchmarks import relax_prior


@pytest.fixture(scope="module")
def yesterday(tmp_path_factory):
    """A work directory with 12 trials of a small matrix product."""
    folder = tmp_path_factory.mktemp("yesterday")
    tune(folder, 12)
    return folder


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def fastest(folder):
    return min(
        open_database(folder).get_all_tuning_records(), key=lambda record: seconds(record.run_secs)
    )


def test_a_source_has_the_results_of_a_workload_by_role(yesterday):
    (source,) = read_history([yesterday])
    records = open_database(yesterday).get_all_tuning_records()
    assert sorted(source.results.values()) == sorted(fitness(record.run_secs) for record in records)
    assert [role for role in source.space.knobs if role.startswith("tile")] == [
        "tile in 4 (1)",
        "tile in 4 (2)",
        "tile in 2 (1)",
    ]
    assert describe_history([source]) == "12 records of 1 task"


def test_nothing_is_written_and_malformed_lines_are_skipped(yesterday, tmp_path):
    for name, data in contents(yesterday).items():
        (tmp_path / name).write_bytes(data)
    with open(tmp_path / RECORD_FILE, "ab") as file:
        file.write(b"[0, [[[")
    before = contents(tmp_path)
    (source,) = read_history([tmp_path, tmp_path])  # given twice, read once
    assert len(source.results) == 12
    assert contents(tmp_path) == before


def test_of_many_records_the_best_and_some_others_are_used(yesterday, monkeypatch):
    """TVM takes milliseconds for each."""
    monkeypatch.setattr(history, "_MAX_RECORDS", 6)
    (source,) = read_history([yesterday])
    ranked = sorted(
        (fitness(record.run_secs) for record in open_database(yesterday).get_all_tuning_records()),
        reverse=True,
    )
    used = sorted(source.results.values(), reverse=True)
    assert len(used) == 6
    assert used[:3] == ranked[:3]
    assert used[-1] == ranked[-1]


def test_of_many_workloads_fewer_records_are_used(yesterday, monkeypatch):
    monkeypatch.setattr(history, "_RECORDS_TO_SHARE", 4)
    monkeypatch.setattr(history, "_MIN_RECORDS", 2)
    (source,) = read_history([yesterday])
    assert len(source.results) == 4


def test_workloads_without_a_success_are_no_source(yesterday, tmp_path):
    commit(open_database(tmp_path), timed(fastest(yesterday), 1e10))
    assert read_history([tmp_path]) == []


@pytest.mark.parametrize("state", ["missing", "empty", "torn"])
def test_a_folder_without_records_is_named(tmp_path, state):
    folder = tmp_path / "history"
    if state != "missing":
        folder.mkdir()
    if state == "torn":
        (folder / WORKLOAD_FILE).write_bytes(b"\0" * 10)
        (folder / RECORD_FILE).write_bytes(b"[0, ")
    with pytest.raises(ValueError, match=f"{folder} has no record"):
        read_history([folder])
    assert folder.exists() == (state != "missing")


def test_a_file_that_is_no_database_is_named(tmp_path):
    (tmp_path / WORKLOAD_FILE).write_text("hello\n")
    (tmp_path / RECORD_FILE).write_text("hello\n")
    with pytest.raises(ValueError, match=f"history: .* no line of {tmp_path}/database"):
        read_history([tmp_path])


def test_a_strategy_begins_with_what_was_best_yesterday(yesterday):
    best = fastest(yesterday)
    context = ms.TuneContext(
        SMALL,
        target=cpu(),
        space_generator="post-order-apply",
        search_strategy=OpEvoStrategy(seed=0, history=yesterday),
        task_name="small",
        rand_state=1,
    ).clone()
    context.pre_tuning(max_trials=8, num_trials_per_iter=8)
    first = context.generate_measure_candidates()
    context.post_tuning()
    assert str(first[0].sch.trace) == str(best.trace)


def test_without_transfer_there_is_no_history(yesterday):
    with pytest.raises(ValueError, match="history needs transfer=True"):
        OpEvoStrategy(transfer=False, history=yesterday)


@pytest.fixture
def learned(monkeypatch):
    """The sources that each task's search learned from last."""
    used, learn_from = {}, TaskSearch.learn_from

    def remembered(search, others):
        used[search] = learn_from(search, others)
        return used[search]

    monkeypatch.setattr(TaskSearch, "learn_from", remembered)
    return used


def origins(sources):
    return [source.origin for source in sources if source.origin]


def test_a_network_says_what_it_learns_from(yesterday, tmp_path, capsys, learned):
    folder, options = tmp_path / "mlp", instant()
    tune_module(*workloads.mlp(), folder, 16, history=[yesterday, folder], **options)
    said = capsys.readouterr().err
    assert "learning from 12 records of 1 task\n" in said
    assert "nothing was learned" not in said
    used = [source for sources in learned.values() for source in sources]
    assert str(yesterday) in origins(used)
    assert any(source.results is search.source.results for source in used for search in learned)
    options["strategy"] = "evolutionary"
    with pytest.raises(ValueError, match="transfer and history are for the default strategy"):
        tune_module(*workloads.mlp(), folder, 4, history=yesterday, **options)


def test_networks_in_one_work_directory_learn_from_each_other_and_not_from_themselves(
    tmp_path, learned
):
    """Also with a strategy of one's own whose history is the work directory."""
    # as similar to the network's layers as common layers are
    one_row = workloads.operator("matmul", [(1, 128), (128, 64)])
    tune_module(*one_row, tmp_path, 4, **instant())
    learned.clear()
    tune_module(*workloads.mlp(), tmp_path, 2, **instant())
    assert max(map(origins, learned.values()), key=len) == [str(tmp_path)]
    learned.clear()
    strategy = OpEvoStrategy(seed=0, history=tmp_path)
    tune_module(*workloads.mlp(), tmp_path, 4, strategy=strategy, **instant())
    assert max(map(len, map(origins, learned.values()))) <= 1


def test_records_of_the_same_network_for_another_target_are_learned_from(tmp_path, learned):
    first, second = tmp_path / "first", tmp_path / "second"
    product = workloads.operator("matmul", [(64, 64), (64, 64)])
    tune_module(*product, first, 4, **instant())
    write_for_another_target(first, second)
    learned.clear()
    assert tune_module(*product, second, 4, **instant()).measured == 4
    assert list(map(origins, learned.values())) == [[str(second)]]


def test_a_history_that_no_task_can_use_is_named(yesterday, tmp_path, capsys):
    """A matrix product says nothing about the sum of rows."""
    sums = network_of(lambda x: relax.op.sum(x, axis=1), shape=(64, 64))
    result = tune_module(sums, {}, tmp_path / "sums", 2, history=yesterday, **instant())
    assert result.measured == 2
    assert (
        f"nothing was learned from {yesterday}: its tasks have other structures"
        in capsys.readouterr().err
    )


def write_for_another_target(folder, out):
    """A copy of a database, as if it had been recorded with 64 cores."""
    out.mkdir(exist_ok=True)
    for name in (WORKLOAD_FILE, RECORD_FILE):
        text = (
            (folder / name)
            .read_text()
            .replace('32],["meta_schedule.parallel"]', '1024],["meta_schedule.parallel"]')
        )  # 16 a core
        values = list(map(json.loads, text.splitlines()))
        for value in values if name == RECORD_FILE else ():
            value[1][2]["num-cores"] = 64
        (out / name).write_text("".join(json.dumps(value) + "\n" for value in values))


def test_a_history_of_another_target_is_read(yesterday, tmp_path):
    """The target is the record's, not this machine's."""
    write_for_another_target(yesterday, tmp_path)
    assert open_database(tmp_path).get_all_tuning_records()[0].target.attrs["num-cores"] == 64
    assert [len(source.results) for source in read_history([tmp_path])] == [12]


@pytest.mark.parametrize("cpu", ["core-avx2", "skylake-avx512"])
@pytest.mark.parametrize("workload", ["MM1", "BMM1", "C1", "C2", "softmax"])
def test_the_package_knows_workloads_like_these(workload, cpu):
    decisions = decision_space(workload, "llvm")
    sources = [
        source
        for one in prior(as_target(f"llvm -mcpu={cpu}"))
        if (source := decisions.translate(one))
    ]
    assert len(sources) >= 2
    for source in sources:
        assert len(source.results) >= 16
        assert max(source.results.values()) == 1.0
        assert all(0 <= fitness <= 1 for fitness in source.results.values())


def test_what_is_known_is_of_use_to_an_arm_cpu():
    target = as_target("llvm -mtriple=aarch64-linux-gnu -mattr=+neon")
    decisions = decisions_of(WORKLOADS["C1"](), target)
    assert any(decisions.translate(source) for source in prior(target))


def test_nothing_is_known_of_a_gpu():
    assert not prior(tvm.target.Target("cuda"))


@pytest.mark.parametrize("cpu", ["core-avx2", "skylake-avx512"])
def test_the_package_knows_the_operators_of_winograds_algorithm(cpu):
    """Of a layer that it does not know: its results are of use to each of the three."""
    target = as_target(f"llvm -mcpu={cpu}")
    kernel = relax.const(np.ones((80, 64, 3, 3), "float32"))
    mod = network_of(
        lambda x: relax.op.nn.conv2d(x, kernel, padding=1), relax.op.nn.relu, shape=(1, 64, 40, 40)
    )
    lowered = lower_for_tuning(mod, None, target)
    tasks = [
        one
        for one in ms.relax_integration.extract_tasks(lowered, target)
        if "winograd" in one.task_name
    ]
    assert len(tasks) == 3
    for task in tasks:
        decisions = decisions_of(task.dispatched[0], target)
        assert sum(decisions.translate(one) is not None for one in prior(target)) >= 2


@pytest.mark.parametrize(
    ("kind", "tasks"),
    [("convolution", 1), ("matmul", 1), ("batch_matmul", 1), ("softmax", 1), ("winograd", 3)],
)
def test_the_prior_s_layers_are_so_many_tasks_each(kind, tasks):
    target = as_target("llvm -mcpu=core-avx2")
    found = ms.relax_integration.extract_tasks(
        lower_for_tuning(*relax_prior.layers(kind), target), target
    )
    assert len(found) == tasks * len(relax_prior.KINDS[kind][1])
