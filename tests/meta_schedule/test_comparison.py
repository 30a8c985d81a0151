"""compare_logs: an MLP, built and timed for real."""

import numpy as np
import pytest
import tvm
import tvm_ffi
from machines import pretend
from quick_network_tuning import instant, tune, tune_module
from quick_tuning import builder, runner
from tvm.s_tir import meta_schedule as ms
from unoptimized import cpu

from autotvm_opevo.lowering.entry import bind_params
from autotvm_opevo.lowering.network import lower_as_imported
from autotvm_opevo.meta_schedule import OpEvoStrategy, as_target, compare_logs, evaluation
from autotvm_opevo.meta_schedule.store import TrialStore
from autotvm_opevo.networks import relax as workloads

# A busy machine takes several times as long.
pytestmark = [pytest.mark.timeout(1800), pytest.mark.usefixtures("two_rounds")]


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    """Two work directories of an MLP, with a trial of each task, and with three, the last of which
    is the fastest.
    """
    few, many = (tmp_path_factory.mktemp(name) for name in ("few", "many"))
    for folder, trials, seed in ((few, 4, 0), (many, 12, 1)):
        options = instant(lambda number: 1e-3 / (1 + number))
        tune(folder, trials, seed=seed, task_scheduler="round-robin", **options)
    return [few, many]


@pytest.fixture
def nothing_built(monkeypatch):
    monkeypatch.setattr(evaluation, "build", lambda *_: pytest.fail("built"))


def test_networks_and_operators_are_timed_in_turn(logs):
    comparison = compare_logs(*workloads.mlp(), None, logs)
    assert np.shape(comparison.race.latencies) == (2, 3)
    assert comparison.outputs_match
    assert len(comparison.operators) == 4
    assert comparison.differing
    assert all(np.shape(operator.race.latencies) == (2, 2) for operator in comparison.differing)
    assert "2 rounds, interleaved; ended by: rounds" in str(comparison)


def test_a_database_of_the_best_is_a_log_too_which_alone_is_compared_with_the_untuned_network(logs):
    comparison = compare_logs(*workloads.mlp(), cpu(), logs[0] / "best")
    assert np.shape(comparison.race.latencies) == (2, 2)
    assert comparison.differing == []


def test_weights_are_in_newly_allocated_memory_in_each_round(logs, monkeypatch):
    loaded = []
    load = tvm_ffi.load_module
    monkeypatch.setattr(
        tvm_ffi, "load_module", lambda file, **options: loaded.append(file) or load(file, **options)
    )
    compare_logs(*workloads.mlp(), cpu(), logs[:1])
    assert len(loaded) == 2 * 3  # for the outputs, and for each round


def test_databases_of_other_layouts_are_compared_but_not_their_operators(tmp_path):
    """As TVM's tune_relax writes them."""
    convolution = workloads.operator("nn.conv2d", [(1, 4, 8, 8), (4, 4, 3, 3)])[0]
    _, weight = convolution["main"].params
    params = {weight.name: tvm.runtime.tensor(np.ones((4, 4, 3, 3), "float32"))}
    tune_module(convolution, params, tmp_path / "ours", 2, **instant())
    lowered = lower_as_imported(bind_params(convolution, params), cpu())
    (tmp_path / "theirs").mkdir()
    theirs = ms.database.JSONDatabase(work_dir=str(tmp_path / "theirs"))
    ms.relax_integration.tune_relax(
        lowered,
        {},
        cpu(),
        str(tmp_path / "theirs"),
        2,
        strategy=OpEvoStrategy(seed=0),
        cost_model="none",
        builder=builder(),
        runner=runner(),
        database=theirs,
    )
    comparison = compare_logs(convolution, params, cpu(), [tmp_path / "ours", tmp_path / "theirs"])
    assert comparison.outputs_match
    assert np.shape(comparison.race.latencies) == (2, 3)
    assert comparison.operators == []


@pytest.mark.usefixtures("nothing_built")
class TestRefusals:
    def test_a_database_of_another_network(self, logs):
        message = r"few0? has no successful record of this network for .*: it has 4 records for .*"
        with pytest.raises(ValueError, match=message):
            compare_logs(*workloads.mlp(batch=2), cpu(), logs)

    def test_a_database_for_another_target(self, logs):
        with pytest.raises(
            ValueError, match=r"has no successful record of this network for .*num-cores.*7"
        ):
            compare_logs(*workloads.mlp(), as_target("llvm -num-cores=7"), logs)

    def test_a_target_that_this_machine_cannot_run(self, logs, tmp_path, monkeypatch):
        pretend(monkeypatch, tmp_path, "epyc_zen4_avx512_hidden")
        with pytest.raises(ValueError, match="whose code this machine can run: it lacks avx512"):
            compare_logs(*workloads.mlp(), "llvm -mcpu=skylake-avx512", logs)

    def test_databases_without_a_common_target(self, logs, tmp_path):
        TrialStore(tmp_path).write_best()
        with pytest.raises(ValueError, match="the logs have no target in common"):
            compare_logs(*workloads.mlp(), None, [logs[0], tmp_path / "best"])

    def test_a_time_limit_is_positive(self, logs):
        with pytest.raises(ValueError, match="time_limit must be a positive number of seconds"):
            compare_logs(*workloads.mlp(), cpu(), logs, time_limit=0)
