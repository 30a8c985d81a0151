"""tune_network: one budget for all tasks, one work directory, and a tuned network with the same
outputs.
"""

import logging
import math
import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import tvm
from compared_networks import compared
from quick_network_tuning import tune, tune_operator
from quick_tuning import builder, outputs, runner
from tvm import relax
from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.meta_schedule.builder import BuilderResult, PyBuilder
from tvm.s_tir.meta_schedule.search_strategy import EvolutionarySearch

from autotvm_opevo._utils.atomic_files import LogInUse
from autotvm_opevo.lowering.entry import bind_params
from autotvm_opevo.lowering.network import build, lower, lower_as_imported
from autotvm_opevo.meta_schedule import (
    OpEvoStrategy,
    as_target,
    compilation,
    compile_network,
    open_database,
    tune_network,
)
from autotvm_opevo.meta_schedule.database import seconds
from autotvm_opevo.meta_schedule.evaluation import evaluate_network, random_inputs
from autotvm_opevo.meta_schedule.store import untuned_networks
from autotvm_opevo.networks import relax as workloads
from autotvm_opevo.reporting.logs import open_logs
from autotvm_opevo.tuning.comparison import Comparison
from benchmarks.workloads import cpu


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    """An MLP with eight trials for each of its four tasks."""
    folder = tmp_path_factory.mktemp("mlp")
    return folder, tune(folder, 32, strategy=OpEvoStrategy(seed=0))


def test_every_task_is_tuned_and_the_outputs_match(tuned):
    folder, result = tuned
    assert result.trials == result.measured == 32
    assert result.stop_reason == "trials"
    assert sum(row.trials for row in result.rows) == 32
    assert all(row.trials >= 2 for row in result.rows)
    assert all(row.limit > 0 for row in result.rows)
    assert all(row.works for row in result.rows)
    assert result.comparison.outputs_match
    assert len(open_database(folder)) == 32
    assert "outputs match" in str(result)
    assert f"best: {folder / 'best'}" in str(result)
    assert len(open_database(folder / "best")) == 4


@pytest.mark.soak
def test_a_transformer_encoder_is_tuned_and_its_outputs_match(tmp_path):
    result = tune_network(
        *workloads.network("bert-small"),
        cpu(),
        tmp_path,
        22,
        builder=builder(),
        runner=runner(),
        seed=0,
    )
    assert result.trials == 22
    assert all(row.trials >= 1 for row in result.rows)
    assert result.comparison.outputs_match


def test_where_all_trials_fail_nothing_is_called_the_best(tmp_path):
    @derived_object
    class Failing(PyBuilder):
        def build(self, inputs):
            return [BuilderResult(None, "no compiler") for _ in inputs]

    result = tune_network(
        *workloads.mlp(), cpu(), tmp_path, 4, builder=Failing(), runner=runner(), seed=0
    )
    assert result.trials == 4
    assert not any(row.works for row in result.rows)
    assert result.comparison is None
    assert not result.comparison_error
    assert len(open_database(tmp_path / "best")) == 0


class TestFewerTrialsThanTasks:
    """An MLP of four tasks."""

    def latencies(self, folder):
        records = open_database(folder / "best").get_all_tuning_records()
        return sorted(seconds(record.run_secs) < math.inf for record in records)

    def test_each_task_gets_a_schedule(self, tmp_path, caplog, capsys):
        result = tune(tmp_path, 1, strategy=OpEvoStrategy(seed=0))
        assert [row.trials for row in result.rows].count(0) == 3
        assert "3 operators without a trial" in capsys.readouterr().err
        assert self.latencies(tmp_path) == [False, False, False, True]
        assert result.comparison.outputs_match
        mod = lower(bind_params(*workloads.mlp()), cpu())
        with cpu(), open_database(tmp_path / "best"):
            applied = relax.transform.MetaScheduleApplyDatabase()(mod)
        assert (
            sum(
                bool(function.attrs.get("tirx.is_scheduled"))
                for _, function in applied.functions.items()
            )
            == 4
        )
        compile_network(*workloads.mlp(), cpu(), tmp_path / "best")
        assert "no record" not in caplog.text

    def test_it_counts_as_no_trial_when_resumed(self, tmp_path):
        tune(tmp_path, 1, strategy=OpEvoStrategy(seed=0), evaluate=False)
        again = tune(tmp_path, 1, strategy=OpEvoStrategy(seed=0), evaluate=False)
        assert (again.trials, again.measured) == (1, 0)
        assert self.latencies(tmp_path) == [False, False, False, True]
        more = tune(tmp_path, 8, strategy=OpEvoStrategy(seed=0), evaluate=False)
        assert (more.trials, more.measured) == (8, 7)
        assert self.latencies(tmp_path) == [True] * 4

    def test_it_stays_when_another_network_is_tuned_into_the_folder(self, tmp_path):
        tune(tmp_path, 1, strategy=OpEvoStrategy(seed=0), evaluate=False)
        tune_operator(tmp_path, 2)
        assert self.latencies(tmp_path) == [False, False, False, True, True]


class TestNetworkThatIsFasterUntuned:
    @pytest.fixture
    def folder(self, tmp_path, monkeypatch):
        monkeypatch.setattr(
            "autotvm_opevo.meta_schedule.network.evaluate_network",
            lambda *_: compared(0.010, 0.012),
        )
        result = tune(tmp_path, 4, strategy=OpEvoStrategy(seed=0))
        assert "the best file has the untuned network" in str(result)
        return tmp_path

    def schedules(self, folder, monkeypatch):
        """Number of records with which `compile_network` builds."""
        found = []
        build = compilation.build
        monkeypatch.setattr(
            compilation, "build", lambda *given: found.append(given[2:]) or build(*given)
        )
        compile_network(*workloads.mlp(), cpu(), folder)
        return len(found[0][0]) if found[0] else 0

    def test_is_compiled_as_imported(self, folder, monkeypatch):
        assert self.schedules(folder / "best", monkeypatch) == 0

    def test_stays_so_until_more_is_measured(self, folder, monkeypatch):
        tune(folder, 4, strategy=OpEvoStrategy(seed=0), evaluate=False)
        assert self.schedules(folder / "best", monkeypatch) == 0
        tune(folder, 5, strategy=OpEvoStrategy(seed=0), evaluate=False)
        assert self.schedules(folder / "best", monkeypatch) == 4

    def test_stays_so_when_another_network_is_tuned_into_its_folder(self, folder, monkeypatch):
        tune_operator(folder, 2)
        assert self.schedules(folder / "best", monkeypatch) == 0


def test_a_torn_database_of_the_best_is_no_error(tuned, tmp_path):
    folder = shutil.copytree(tuned[0], tmp_path / "mlp")
    with open(folder / "best" / "database_tuning_record.json", "a") as file:
        file.write('[3, [[["torn')
    (folder / "best" / "trials").write_text("")
    result = tune(folder, 32, evaluate=False)
    assert (result.measured, result.trials) == (0, 32)
    assert all(row.works for row in result.rows)


def test_tuning_ends_at_the_time_limit_and_can_be_resumed(tmp_path, capsys):
    result = tune_operator(tmp_path, 1000, time_limit=0.001)
    assert (result.trials, result.stop_reason) == (0, "time limit")
    result = tune_operator(tmp_path, 1000, time_limit=10)
    assert result.stop_reason == "time limit"
    assert 0 < result.trials < 1000
    left = re.findall(r"(\d\d:\d\d) left", capsys.readouterr().err)
    assert left
    assert max(left) < "00:10"
    again = tune_operator(tmp_path, result.trials + 1, time_limit=3600)
    assert (again.measured, again.stop_reason) == (1, "trials")


def test_a_full_disk_is_found_before_anything_is_measured(tmp_path, monkeypatch):
    def full(file):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="cannot write here: No space left on device"):
        tune(tmp_path / "mlp", 8)
    assert not list((tmp_path / "mlp").iterdir())


def test_tvms_search_ends_where_a_task_has_a_single_schedule(tmp_path):
    """It then proposes nothing several times before it gives the task up."""
    operator = workloads.operator("nn.relu", [(4,)])
    # seconds instead of a minute
    search = EvolutionarySearch(population_size=16, init_min_unmeasured=2, genetic_num_iters=1)
    options = {
        "strategy": search,
        "cost_model": "random",
        "builder": builder(),
        "runner": runner(),
        "evaluate": False,
    }
    result = tune_network(*operator, cpu(), tmp_path, 8, seed=0, **options)
    assert result.stop_reason in ("exhausted", "trials")
    assert 1 <= result.trials == len(open_database(tmp_path))


def test_a_runner_that_cannot_be_created_leaves_no_folder_and_no_lock(tmp_path):
    with pytest.raises(ValueError, match="abacus"):
        tune_network(*workloads.mlp(), cpu(), tmp_path / "new", 4, runner="abacus")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("time_limit", [0, -1.0])
def test_a_time_limit_is_positive(tmp_path, time_limit):
    with pytest.raises(ValueError, match="time_limit must be a positive number of seconds"):
        tune(tmp_path / "log", 8, time_limit=time_limit)
    assert not (tmp_path / "log").exists()


def test_the_journal_has_what_the_database_lacks(tuned):
    folder, result = tuned
    (recording,) = open_logs([folder])
    assert len(recording) == 32
    assert sorted(len(task.elapsed) for task in recording.tasks.values()) == sorted(
        row.trials for row in result.rows
    )
    assert recording.runs.tuners == ["OpEvo, seed 0"]
    assert recording.runs.latency[0] == pytest.approx(result.comparison.race.latency(0).value)
    names = [name for (name,) in recording.runs.operators]
    assert sorted(names) == sorted(task.journal_key for task in recording.tasks.values())
    assert recording.runs.phases.keys() == {
        "starting",
        "searching",
        "building",
        "running",
        "confirming",
    }
    assert sum(result.phases.values()) == pytest.approx(result.seconds, abs=0.1)


def test_another_network_in_the_same_folder_extends_the_journal(tmp_path):
    for rows in (8, 16):
        operator = workloads.operator("matmul", [(rows, 16), (16, 16)])
        tune_network(
            *operator, cpu(), tmp_path, 2, builder=builder(), runner=runner(), evaluate=False
        )
    (recording,) = open_logs([tmp_path])
    assert len(recording) == 4
    assert all(len(task.elapsed) for task in recording.tasks.values())
    assert len(recording.runs.operators) == 2


def test_what_computes_something_else_is_not_among_the_best(tmp_path, monkeypatch):
    """Its trials are kept, as are the best of other networks."""
    tune_operator(tmp_path, 2)
    wrong = Comparison(
        ["tuned"], relative_errors=[0.5], outputs_match=False, stop_reason="different outputs"
    )
    monkeypatch.setattr("autotvm_opevo.meta_schedule.network.evaluate_network", lambda *_: wrong)
    result = tune(tmp_path, 8)
    assert "outputs DIFFER, relative error 5.0e-01: the best file has the untuned network" in str(
        result
    )
    assert len(untuned_networks(result.best_file)) == 1
    (record,) = open_database(tmp_path / "best").get_all_tuning_records()
    assert [[*map(int, tensor.shape)] for tensor in record.args_info] == [[32, 32]] * 3
    assert len(open_database(tmp_path)) == 10


def test_the_evaluation_preserves_the_cpu_affinity(tuned):
    """TVM binds the process to one core, which later builders and runners would inherit."""
    folder, _ = tuned
    mod = lower(bind_params(*workloads.mlp()), cpu())
    before = os.sched_getaffinity(0)
    evaluate_network(
        lower_as_imported(bind_params(*workloads.mlp()), cpu()), mod, cpu(), open_database(folder)
    )
    assert os.sched_getaffinity(0) == before


def test_the_same_call_measures_nothing_and_a_larger_one_resumes(tuned):
    folder, _ = tuned
    before = (folder / "database_tuning_record.json").read_bytes()
    again = tune(folder, 32, evaluate=False)
    assert (again.trials, again.measured) == (32, 0)
    assert (folder / "database_tuning_record.json").read_bytes() == before
    more = tune(folder, 40, evaluate=False)
    assert (more.trials, more.measured) == (40, 8)
    records = open_database(folder).get_all_tuning_records()
    assert len({(str(record.workload.mod), str(record.trace)) for record in records}) == len(
        records
    )


def test_the_database_can_be_applied_with_metaschedule(tuned):
    folder, _ = tuned
    mod = lower(bind_params(*workloads.mlp()), cpu())
    with cpu(), open_database(folder):
        applied = relax.transform.MetaScheduleApplyDatabase(enable_warning=True)(mod)
    assert (
        sum(
            bool(function.attrs.get("tirx.is_scheduled"))
            for _, function in applied.functions.items()
        )
        == 4
    )


def test_tvms_own_strategy_can_be_used(tmp_path):
    assert (
        tune_operator(tmp_path, 4, strategy="evolutionary", cost_model="random", seed=0).measured
        >= 4
    )


@pytest.mark.parametrize(
    "task_scheduler", ["gradient", pytest.param("round-robin", marks=pytest.mark.soak)]
)
def test_tune_relax_takes_the_strategy(tmp_path, task_scheduler):
    mod = lower(bind_params(*workloads.mlp()), cpu())
    database = ms.relax_integration.tune_relax(
        mod,
        {},
        cpu(),
        str(tmp_path),
        max_trials_global=8,
        max_trials_per_task=2,
        strategy=OpEvoStrategy(seed=0),
        builder=builder(),
        runner=runner(),
        cost_model="none",
        task_scheduler=task_scheduler,
        database=open_database(tmp_path),
    )
    records = database.get_all_tuning_records()
    assert len({(str(record.workload.mod), str(record.trace)) for record in records}) == 8
    tuned, expected = outputs([build(mod, cpu(), database), build(mod, cpu())], random_inputs(mod))
    np.testing.assert_allclose(tuned[0], expected[0], rtol=1e-3, atol=1e-5)


def test_a_locked_work_directory_is_rejected(tmp_path):
    from autotvm_opevo._utils.atomic_files import Lock

    lock = Lock(tmp_path / "lock")
    lock.acquire(tmp_path)
    try:
        with pytest.raises(LogInUse, match=f"pid {os.getpid()}"):
            tune(tmp_path, 4)
    finally:
        lock.release()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": "abacus"}, "target must be a target of TVM, such as llvm .*'abacus' given"),
        ({"trials": 0}, "trials must be an integer of at least 1, 0 given"),
        ({"seed": -1}, "seed must be an integer of at least 0, -1 given"),
        ({"seed": 2**31}, "seed must be less than"),
        ({"strategy": "evolution"}, "Unknown SearchStrategy: evolution"),
        ({"builder": "abacus"}, "Unknown Builder: abacus"),
        (
            {"task_scheduler": "fair"},
            "task_scheduler must be one of gradient, equal, round-robin, or a function; "
            "'fair' given",
        ),
    ],
)
def test_invalid_arguments_are_rejected_before_anything_is_created(tmp_path, options, message):
    arguments = {"target": cpu(), "trials": 4, **options}
    with pytest.raises(ValueError, match=message):
        tune_network(*workloads.mlp(), work_dir=tmp_path / "new", **arguments)
    assert not (tmp_path / "new").exists()


def test_a_network_with_an_unknown_shape_is_rejected_before_anything_is_created(tmp_path):
    x = relax.Var("x", relax.TensorType((tvm.tirx.Var("n", "int64"), 16), "float32"))
    blocks = relax.BlockBuilder()
    with blocks.function("main", [x]):
        blocks.emit_func_output(blocks.emit(relax.op.nn.softmax(x)))
    with pytest.raises(
        ValueError, match=r"mod must have inputs of known shapes, x is .*BindSymbolicVars"
    ):
        tune_network(blocks.finalize(), None, cpu(), tmp_path / "new", 4)
    assert not (tmp_path / "new").exists()


def test_a_task_scheduler_of_the_user_s_must_return_a_task(tmp_path):
    with pytest.raises(
        (RuntimeError, ValueError), match="must return the position of an active task, -1 returned"
    ):
        tune(tmp_path, 4, task_scheduler=lambda *_: -1, evaluate=False)


def test_tvm_s_logging_is_as_before_and_no_file_stays_open(tmp_path):
    logger = logging.getLogger("tvm.s_tir.meta_schedule")
    before = logger.level, logger.propagate, list(logger.handlers)
    tune(tmp_path, 4, evaluate=False)
    assert (logger.level, logger.propagate, list(logger.handlers)) == before
    assert not [
        link for link in Path("/proc/self/fd").iterdir() if str(tmp_path) in os.path.realpath(link)
    ]


class TestTargets:
    def test_a_cpu_has_this_machines_cores_unless_given(self):
        assert as_target("llvm").attrs["num-cores"] >= 1
        assert as_target({"kind": "llvm", "num-cores": 7}).attrs["num-cores"] == 7

    def test_options_in_a_string_are_accepted(self):
        target = as_target("llvm -mcpu=skylake-avx512 -mattr=+avx512f,-sse4a -num-cores 3")
        assert (target.attrs["mcpu"], list(target.attrs["mattr"])) == (
            "skylake-avx512",
            ["+avx512f", "-sse4a"],
        )
        assert target.attrs["num-cores"] == 3

    def test_a_gpu_must_be_named(self):
        with pytest.raises(
            ValueError,
            match=r"target must have the GPU's max_threads_per_block and .* name the device",
        ):
            as_target("cuda")

    @pytest.mark.parametrize("wrong", ["abacus", "llvm mcpu=x", 3, {"kind": "abacus"}, ""])
    def test_other_targets_are_rejected(self, wrong):
        with pytest.raises(ValueError, match="target must be a target of TVM"):
            as_target(wrong)

    def test_a_cpu_that_llvm_does_not_know_is_rejected(self):
        with pytest.raises(
            ValueError, match=r"target's -mcpu must be a CPU that LLVM \d+ knows, 'znver9' given"
        ):
            as_target("llvm -mcpu=znver9")


class TestWorkloads:
    def test_networks_are_created_by_name(self):
        assert len(workloads.network("resnet-18", 2)[1]) == 42
        with pytest.raises(
            ValueError,
            match=r"network must be one of alexnet, bert-small, mlp, resnet-18; 'lenet' given",
        ):
            workloads.network("lenet")

    def test_operators_are_relaxs(self):
        mod, _ = workloads.operator(
            "nn.conv2d", [(1, 3, 8, 8), (4, 3, 3, 3)], attributes={"padding": [1, 1]}
        )
        assert [int(extent) for extent in mod["main"].ret_ty.shape] == [1, 4, 8, 8]
        with pytest.raises(
            ValueError, match=r"one of Relax's, such as matmul or nn.conv2d; 'nn.dense' given"
        ):
            workloads.operator("nn.dense", [(1, 2), (3, 2)])
        with pytest.raises(
            ValueError, match=r"operator matmul cannot take tensors of \[\(2, 3\), \(4, 5\)\]"
        ):
            workloads.operator("matmul", [(2, 3), (4, 5)])

    def test_an_onnx_file_is_loaded_with_its_weights(self, tmp_path):
        import onnx
        from onnx import TensorProto, helper, numpy_helper

        weight = np.random.default_rng(0).standard_normal((8, 4)).astype("float32")
        graph = helper.make_graph(
            [helper.make_node("MatMul", ["x", "w"], ["y"])],
            "graph",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 8])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 4])],
            [numpy_helper.from_array(weight, "w")],
        )
        path = tmp_path / "model.onnx"
        onnx.save(
            helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
            path,
        )
        with pytest.raises(
            ValueError,
            match=r"input 'x' of .* has a dynamic shape, which must be given: .* --shape x=1x8 on",
        ):
            workloads.model_file(path)
        mod = lower(bind_params(*workloads.model_file(path, {"x": (3, 8)})), cpu())
        inputs = random_inputs(mod)
        ((output,),) = outputs([build(mod, cpu())], inputs)
        np.testing.assert_allclose(output, inputs[0] @ weight, rtol=1e-4, atol=1e-4)

    def test_other_files_are_rejected(self, tmp_path):
        (tmp_path / "model.onnx").write_text("no model")
        with pytest.raises(ValueError, match=r"cannot read .*model.onnx"):
            workloads.model_file(tmp_path / "model.onnx")
