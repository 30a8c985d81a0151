"""Networks of the kinds that people bring are tuned, and compute what ONNX specifies."""

import pytest
from onnx_zoo import NETWORKS, networks
from quick_network_tuning import tune_module
from quick_tuning import outputs
from unoptimized import cpu

from autotvm_opevo.meta_schedule import compile_network
from autotvm_opevo.networks import relax as workloads

NOT_IMPORTED = {"lstm": "TVM 0.27 imports no LSTM", "gru": "TVM 0.27 imports no GRU"}
# Matrix products and indices.
QUICK = ("recommender",)
# Of float16, TVM 0.27 cannot lower batch normalizations.
NOT_COMPARED = ("half_precision", "half_precision_inside")


@pytest.mark.usefixtures("two_rounds")
@pytest.mark.parametrize("name", [*networks(QUICK, NOT_IMPORTED)])
def test_a_tuned_network_computes_what_onnx_specifies(tmp_path, name):
    """With a trial for each task, and two more."""
    network = NETWORKS[name]()
    mod, weights = workloads.model_file(network.save(tmp_path), network.open)
    given, options = (mod, weights, tmp_path / "log"), {"task_scheduler": "round-robin"}
    tasks = len(tune_module(*given, 1, evaluate=False, **options).rows)
    result = tune_module(*given, tasks + 2, **options)
    assert result.trials == tasks + 2
    assert all(row.works for row in result.rows)
    assert result.comparison_error if name in NOT_COMPARED else result.comparison.outputs_match
    (actual,) = outputs(
        [compile_network(mod, weights, cpu(), result.best_file)], [*network.inputs.values()]
    )
    network.assert_outputs(actual, network.expected())
