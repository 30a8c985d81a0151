"""Networks of the kinds that people bring, lowered for tuning: they compute what ONNX specifies."""

import pytest
from onnx_zoo import NETWORKS, networks
from quick_tuning import outputs
from unoptimized import cpu

from autotvm_opevo.lowering.entry import bind_params
from autotvm_opevo.lowering.network import build, lower, lower_as_imported
from autotvm_opevo.networks import relax as workloads

NOT_IMPORTED = {"lstm": "TVM 0.27 imports no LSTM", "gru": "TVM 0.27 imports no GRU"}
HALF = "TVM 0.27's batch normalization of float16 is float32"
QUICK = (
    *(
        "shufflenet",
        "unet",
        "espcn",
        "keypoints",
        "gpt2",
        "audio",
        "perceptron",
        "lstm",
        "gru",
        "recommender",
        "quantized",
    ),
    *("half_precision", "open_batch"),
)


def assert_lowered_as_specified(lower, name, folder):
    network = NETWORKS[name]()
    mod, weights = workloads.model_file(network.save(folder), network.open)
    (actual,) = outputs(
        [build(lower(bind_params(mod, weights), cpu()), cpu())], [*network.inputs.values()]
    )
    network.assert_outputs(actual, network.expected())


@pytest.mark.parametrize("name", [*networks(QUICK, NOT_IMPORTED)])
def test_a_network_that_is_lowered_for_tuning_computes_what_onnx_specifies(tmp_path, name):
    assert_lowered_as_specified(lower, name, tmp_path)


@pytest.mark.parametrize(
    "name", [*networks((), {**NOT_IMPORTED, "half_precision": HALF, "half_precision_inside": HALF})]
)
def test_a_network_as_imported_computes_what_onnx_specifies(tmp_path, name):
    """Or TVM itself is wrong."""
    assert_lowered_as_specified(lower_as_imported, name, tmp_path)
