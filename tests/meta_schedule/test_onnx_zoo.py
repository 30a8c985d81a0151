"""Networks of the kinds that people bring are tuned, and compute what ONNX specifies."""

import pytest
from onnx_zoo import NETWORKS, networks
from quick_network_tuning import instant, tune_module
from quick_tuning import outputs
from unoptimized import cpu

from autotvm_opevo.lowering.entry import bind_params
from autotvm_opevo.lowering.network import lower
from autotvm_opevo.meta_schedule import compile_network
from autotvm_opevo.meta_schedule.tasks import extract
from autotvm_opevo.networks import relax as workloads

NOT_IMPORTED = {"lstm": "TVM 0.27 imports no LSTM", "gru": "TVM 0.27 imports no GRU"}
# Matrix products and indices.
QUICK = ("recommender",)
# Of float16, TVM 0.27 cannot lower batch normalizations.
NOT_COMPARED = ("half_precision", "half_precision_inside")


@pytest.mark.usefixtures("two_rounds")
@pytest.mark.parametrize("name", [*networks(QUICK, NOT_IMPORTED)])
def test_a_tuned_network_computes_what_onnx_specifies(tmp_path, name):
    """With a trial for each task, and two more; those of the quick one are made up."""
    network = NETWORKS[name]()
    mod, weights = workloads.model_file(network.save(tmp_path), network.open)
    tasks, _ = extract(lower(bind_params(mod, weights), cpu()), cpu())
    options = {"task_scheduler": "round-robin", **(instant() if name in QUICK else {})}
    result = tune_module(mod, weights, tmp_path / "log", len(tasks) + 2, **options)
    assert result.trials == len(tasks) + 2
    assert all(row.works for row in result.rows)
    if name in NOT_COMPARED:
        assert result.comparison_error
    elif name not in QUICK:
        assert result.comparison.outputs_match
    (actual,) = outputs(
        [compile_network(mod, weights, cpu(), result.best_file)], [*network.inputs.values()]
    )
    network.assert_outputs(actual, network.expected())
