"""Networks of the kinds that people bring, lowered for tuning: they compute what ONNX specifies."""

import pytest
from onnx_zoo import NETWORKS, networks
from quick_tuning import outputs
from unoptimized import cpu

from autotvm_opevo.lowering.entry import bind_params
from autotvm_opevo.lowering.network import build, lower
from autotvm_opevo.networks import relax as workloads

NOT_IMPORTED = {"lstm": "TVM 0.27 imports no LSTM", "gru": "TVM 0.27 imports no GRU"}
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
        "quantized",
    ),
    *("half_precision", "open_batch"),
)


@pytest.mark.parametrize("name", [*networks(QUICK, NOT_IMPORTED)])
def test_a_network_that_is_lowered_for_tuning_computes_what_onnx_specifies(tmp_path, name):
    network = NETWORKS[name]()
    mod, weights = workloads.model_file(network.save(tmp_path), network.open)
    (actual,) = outputs(
        [build(lower(bind_params(mod, weights), cpu()), cpu())], [*network.inputs.values()]
    )
    network.assert_outputs(actual, network.expected())
