"""tune_network with MetaSchedule: what `tests/contract` does not say of all adapters."""

import math
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import tvm
from compared_networks import compared, time_two_rounds
from quick_network_tuning import instant, tune, tune_module, tune_operator
from quick_tuning import builder, count_scheduled, outputs, runner
from relax_modules import product_and_softmax
from tvm import relax
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.meta_schedule.search_strategy import EvolutionarySearch
from tvm_ffi import structural_equal
from unoptimized import cpu

from autotvm_opevo.lowering.entry import bind_params
from autotvm_opevo.lowering.network import build, lower
from autotvm_opevo.meta_schedule import (
    LocalBuilder,
    LocalRunner,
    OpEvoStrategy,
    as_target,
    compilation,
    compile_network,
    open_database,
    tune_network,
)
from autotvm_opevo.meta_schedule.evaluation import random_inputs
from autotvm_opevo.meta_schedule.network import NetworkRun
from autotvm_opevo.meta_schedule.store import untuned_networks
from autotvm_opevo.networks import relax as workloads
from autotvm_opevo.tuning.comparison import Comparison
from autotvm_opevo.tuning.record_lines import seconds
from autotvm_opevo.tuning.task_scheduler import Operator, TaskProgress


@pytest.mark.soak
def test_a_transformer_encoder_is_tuned_and_its_outputs_match(tmp_path):
    result = tune_module(*workloads.network("bert-small"), tmp_path, 22)
    assert result.trials == 22
    assert all(row.trials >= 1 for row in result.rows)
    assert result.comparison.outputs_match


def test_tasks_that_hardly_matter_begin_with_two_trials_and_wait_for_no_other(monkeypatch):
    """Unless their bounds leave out what they compute, as in 16 bits."""
    flops = {"product": 1e9, "other": 1e8, "softmax": 1e5, "half": 0.0}
    monkeypatch.setattr("autotvm_opevo.meta_schedule.network.work", lambda key: (flops[key], 0.0))
    tasks = [
        SimpleNamespace(key=key, mod=key, bound=1e-12 * flop, progress=TaskProgress(1e9, "any"))
        for key, flop in flops.items()
    ]
    run = SimpleNamespace(
        _measurer=SimpleNamespace(runner=LocalRunner.__new__(LocalRunner)),
        _measure_bounds=lambda *_: None,
        _target=cpu(),
        _tasks=tasks,
        _operators=[Operator(1, (i,)) for i in range(4)],
    )
    NetworkRun._measure_machine(run)
    small = [task.progress.first_round == 2 for task in tasks]
    assert small == [False, False, True, False]
    assert [task.progress.kind for task in tasks] == ["any", "any", "softmax", "any"]


def test_of_a_network_without_anything_to_tune_no_work_directory_is_left(tmp_path):
    x = relax.Var("x", relax.TensorType((2, 3), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        builder.emit_func_output(x)
    with pytest.raises(ValueError, match="must have an operator that can be tuned; it has none"):
        tune_network(builder.finalize(), {}, cpu(), tmp_path / "new")
    assert not [*tmp_path.iterdir()]


def test_a_builder_of_the_users_links_for_this_machine_though_not_told_to(tmp_path, monkeypatch):
    """Or the runner would, while nothing is built, and keep what it has loaded."""
    artifacts, run = [], LocalRunner._cls.run_alone

    def note(runner, artifact, *arguments):
        artifacts.append(Path(artifact).suffix)
        return run(runner, artifact, *arguments)

    monkeypatch.setattr(LocalRunner._cls, "run_alone", note)
    tune_operator(tmp_path, 2)
    assert {*artifacts} == {".so"}


def test_a_builder_that_cannot_be_closed_leaves_no_lock(tmp_path, monkeypatch):
    close = LocalBuilder._cls.close

    def fail(builder):
        close(builder)
        raise OSError("the folder of what was built is in use")

    monkeypatch.setattr(LocalBuilder._cls, "close", fail)
    with pytest.raises(OSError, match="is in use"):
        tune_operator(tmp_path, 1)
    assert not (tmp_path / "lock").exists()


def test_without_a_compiler_to_link_with_there_are_no_trials(tmp_path, monkeypatch):
    """All would fail, and stay failures in the database."""
    for name, value in {"PATH": str(tmp_path), "CXX": "", "CC": ""}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(RuntimeError, match=r"install g\+\+ or clang.*none is on the PATH"):
        tune_operator(tmp_path / "work", 2)
    assert len(open_database(tmp_path / "work")) == 0


@pytest.fixture(scope="module")
def one_trial(tmp_path_factory):
    """An MLP of four tasks, with one trial; and the result."""
    folder = tmp_path_factory.mktemp("mlp")
    with pytest.MonkeyPatch.context() as patch:
        time_two_rounds(patch)
        return folder, tune(folder, 1, strategy=OpEvoStrategy(seed=0))


class TestFewerTrialsThanTasks:
    @pytest.fixture
    def folder(self, one_trial, tmp_path):
        """A copy of its work directory."""
        return shutil.copytree(one_trial[0], tmp_path / "copy")

    def latencies(self, folder):
        records = open_database(folder / "best").get_all_tuning_records()
        return sorted(seconds(record.run_secs) < math.inf for record in records)

    def test_each_task_gets_a_schedule(self, one_trial, caplog):
        folder, result = one_trial
        assert [row.trials for row in result.rows].count(0) == 3
        assert self.latencies(folder) == [False, False, False, True]
        assert result.comparison.outputs_match
        lowered = lower(bind_params(*workloads.mlp()), cpu())
        assert count_scheduled(lowered, cpu(), folder / "best") == 4
        compile_network(*workloads.mlp(), cpu(), folder / "best")
        assert "no record" not in caplog.text

    def test_it_counts_as_no_trial_when_resumed(self, folder, capsys):
        again = tune(folder, 1, strategy=OpEvoStrategy(seed=0), evaluate=False)
        assert "3 operators without a trial" in capsys.readouterr().err
        assert (again.trials, again.measured) == (1, 0)
        assert self.latencies(folder) == [False, False, False, True]
        more = tune(folder, 8, strategy=OpEvoStrategy(seed=0), **instant())
        assert (more.trials, more.measured) == (8, 7)
        assert self.latencies(folder) == [True] * 4

    def test_it_stays_when_another_network_is_tuned_into_the_folder(self, folder):
        tune_operator(folder, 2, **instant())
        assert self.latencies(folder) == [False, False, False, True, True]


@pytest.fixture(scope="module")
def faster_untuned(tmp_path_factory):
    """A work directory with four trials of an MLP, which seems to be slower with them."""
    folder = tmp_path_factory.mktemp("mlp")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "autotvm_opevo.meta_schedule.network.evaluate_network",
            lambda *_: compared(0.010, 0.012),
        )
        result = tune(folder, 4, strategy=OpEvoStrategy(seed=0))
    assert "the best file has the untuned network" in str(result)
    return folder


class TestNetworkThatIsFasterUntuned:
    @pytest.fixture
    def folder(self, faster_untuned, tmp_path):
        """A copy."""
        return shutil.copytree(faster_untuned, tmp_path / "copy")

    def schedules(self, folder, monkeypatch, target=None):
        """Number of records with which `compile_network` builds."""
        found = []
        build = compilation.build
        monkeypatch.setattr(
            compilation, "build", lambda *given: found.append(given[2:]) or build(*given)
        )
        compile_network(*workloads.mlp(), target or cpu(), folder)
        return len(found[0][0]) if found[0] else 0

    def test_is_compiled_as_imported(self, faster_untuned, monkeypatch):
        for folder in (faster_untuned, faster_untuned / "best"):
            assert self.schedules(folder, monkeypatch) == 0

    def test_is_so_for_a_target_without_records(self, faster_untuned, monkeypatch):
        assert self.schedules(faster_untuned / "best", monkeypatch, cpu(64)) == 0

    def test_is_not_so_for_a_target_with_records_of_its_own(self, folder, monkeypatch, capsys):
        tune_network(*workloads.mlp(), cpu(64), folder, 4, seed=0, **instant())
        assert "trials in the database do not count, they are for " in capsys.readouterr().err
        assert self.schedules(folder / "best", monkeypatch, cpu(64)) == 4
        assert self.schedules(folder / "best", monkeypatch) == 0

    def test_stays_so_until_more_is_measured(self, folder, monkeypatch):
        tune(folder, 4, strategy=OpEvoStrategy(seed=0), evaluate=False)
        assert self.schedules(folder / "best", monkeypatch) == 0
        tune(folder, 5, strategy=OpEvoStrategy(seed=0), **instant())
        assert self.schedules(folder / "best", monkeypatch) == 4

    def test_stays_so_when_another_network_is_tuned_into_its_folder(self, folder, monkeypatch):
        tune_operator(folder, 2, **instant())
        assert self.schedules(folder / "best", monkeypatch) == 0


def test_tvms_search_of_a_task_with_few_schedules_ends(tmp_path):
    """It then proposes nothing several times before it gives the task up."""
    operator = workloads.operator("nn.relu", [(4,)])
    # seconds instead of a minute
    search = EvolutionarySearch(population_size=16, init_min_unmeasured=2, genetic_num_iters=1)
    options = {"strategy": search, "cost_model": "random", **instant()}
    result = tune_module(*operator, tmp_path, 8, **options)
    assert result.stop_reason in ("exhausted", "trials")
    assert 1 <= result.trials == len(open_database(tmp_path))


def test_of_what_computes_something_else_only_what_another_network_had_is_among_the_best(
    tmp_path, monkeypatch
):
    """All trials are kept."""
    softmax = workloads.operator("nn.softmax", [(8, 32)])
    tune_module(*softmax, tmp_path, 2, **instant())
    (before,) = open_database(tmp_path / "best").get_all_tuning_records()
    wrong = Comparison(["tuned"], relative_errors=[0.5], outputs_match=False)
    monkeypatch.setattr("autotvm_opevo.meta_schedule.network.evaluate_network", lambda *_: wrong)
    result = tune_module(product_and_softmax(), None, tmp_path, 8)
    assert (len(result.rows), result.measured, len(open_database(tmp_path))) == (2, 6, 8)
    assert len(untuned_networks(result.best_file)) == 1
    (record,) = open_database(tmp_path / "best").get_all_tuning_records()
    assert str(record.trace) == str(before.trace)
    assert seconds(record.run_secs) == seconds(before.run_secs)


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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": "abacus"}, "target must be a target of TVM, such as llvm .*'abacus' given"),
        ({"seed": 2**31}, "seed must be less than"),
        ({"strategy": "evolution"}, "Unknown SearchStrategy: evolution"),
        ({"builder": "abacus"}, "Unknown Builder: abacus"),
        ({"runner": "abacus"}, "abacus"),
    ],
)
def test_invalid_arguments_are_rejected_before_anything_is_created(tmp_path, options, message):
    arguments = {"target": cpu(), "trials": 4, **options}
    with pytest.raises(ValueError, match=message):
        tune_network(*workloads.mlp(), work_dir=tmp_path / "new", **arguments)
    assert not (tmp_path / "new").exists()


class TestTargets:
    def test_options_in_a_string_are_accepted(self):
        target = as_target("llvm -mcpu=skylake-avx512 -mattr=+avx512f,-sse4a -num-cores 3")
        assert (target.attrs["mcpu"], list(target.attrs["mattr"])) == (
            "skylake-avx512",
            ["+avx512f", "-sse4a"],
        )
        assert target.attrs["num-cores"] == 3

    @pytest.mark.parametrize(
        "target",
        [
            "llvm -num-cores=2",
            {"kind": "llvm", "num-cores": 2, "opt-level": 1},
            tvm.target.Target({"kind": "llvm", "num-cores": 2}, host="llvm"),
            "nvidia/nvidia-h100",
        ],
    )
    def test_it_is_the_same_text_once_it_was_in_a_database(self, target):
        completed = as_target(target)
        assert str(tvm.target.Target(completed.export())) == str(completed)
        assert structural_equal(as_target(completed), completed)

    def test_a_run_resumes_with_a_target_that_has_only_a_number_of_cores(self, tmp_path):
        operator = workloads.operator("nn.softmax", [(8, 32)])
        for measured in (2, 0):
            result = tune_network(*operator, "llvm -num-cores=2", tmp_path, 2, **instant())
            assert (result.trials, result.measured) == (2, measured)

    def test_a_gpu_must_be_named(self):
        with pytest.raises(
            ValueError,
            match=r"target must have the GPU's max_threads_per_block and .* name the device",
        ):
            as_target("cuda")

    def test_the_gpu_of_this_machine_needs_no_name(self, monkeypatch):
        named = tvm.target.Target("nvidia/nvidia-h100")
        monkeypatch.setattr(tvm, "device", lambda *_: SimpleNamespace(exist=True))
        monkeypatch.setattr(tvm.target.Target, "from_device", lambda _: named)
        assert structural_equal(as_target("cuda"), as_target(named))

    @pytest.mark.skipif(tvm.cuda(0).exist, reason="this machine has a GPU")
    def test_a_device_that_this_machine_lacks_is_refused_before_anything_starts(self, tmp_path):
        operator = workloads.operator("matmul", [(32, 32), (32, 32)])
        with pytest.raises(ValueError, match="this machine has no cuda device"):
            tune_network(*operator, "nvidia/nvidia-h100", tmp_path / "new", trials=4)
        assert not (tmp_path / "new").exists()

    @pytest.mark.parametrize("wrong", ["abacus", "llvm mcpu=x", 3, {"kind": "abacus"}, ""])
    def test_other_targets_are_rejected(self, wrong):
        with pytest.raises(ValueError, match="target must be a target of TVM"):
            as_target(wrong)

    def test_a_cpu_that_llvm_does_not_know_is_rejected(self):
        with pytest.raises(
            ValueError, match=r"target's -mcpu must be a CPU that LLVM \d+ knows, 'znver9' given"
        ):
            as_target("llvm -mcpu=znver9")
