"""Networks of the kinds that people bring: their tasks, and that they compute what ONNX specifies,
untuned and tuned.
"""

import pytest
import tvm
from compared_networks import time_two_rounds
from instant_measuring import for_real, instant
from onnx_zoo import NETWORKS, networks
from small_networks import TARGET
from tvm import autotvm, relay
from tvm.runtime.vm import VirtualMachine

from autotvm_opevo import tune_network
from autotvm_opevo.autotvm import network as module
from autotvm_opevo.autotvm.evaluation import Instance, build
from autotvm_opevo.autotvm.extraction import extract
from autotvm_opevo.autotvm.folding import fold
from autotvm_opevo.networks import relay as workloads

FAULTS = {
    "perceptron": "TVM 0.17 takes the ratio of a Dropout for an attribute, which it no longer is"
}
# Shapes that are known in a run only, for TVM's VM.
DYNAMIC = ("yolo_nms", "keypoints")
# Unlike each other: convolutions of all kinds and a channel shuffle, matrix products and indices,
# convolutions of a sequence.
QUICK = ("shufflenet", "recommender", "audio")


def load(network, folder):
    return workloads.model_file(network.save(folder), network.open)


def outputs(name, mod, inputs, best=()):
    if name not in DYNAMIC:
        return Instance(build(mod, TARGET, best), tvm.cpu(), inputs).outputs()
    with (
        autotvm.apply_history_best(str(best) if best else []),
        tvm.transform.PassContext(opt_level=3),
    ):
        machine = VirtualMachine(relay.vm.compile(mod, TARGET), tvm.cpu())
    return [output.numpy() for output in machine.invoke("main", **inputs)]


@pytest.mark.parametrize("name", [*networks(("perceptron",), FAULTS)])
def test_an_untuned_network_computes_what_onnx_specifies(tmp_path, name):
    network = NETWORKS[name]()
    mod = fold(*load(network, tmp_path))
    assert extract(mod, TARGET).operators
    network.assert_outputs(outputs(name, mod, network.inputs), network.expected())


@pytest.mark.parametrize("name", [*networks(QUICK, FAULTS)])
def test_a_tuned_network_computes_what_onnx_specifies(tmp_path, monkeypatch, name):
    """With a trial for each task, and two more; those of the quick ones are made up."""
    time_two_rounds(monkeypatch)
    network = NETWORKS[name]()
    mod, weights = load(network, tmp_path)
    folded = fold(mod, weights)
    trials = len(module.extract(folded, TARGET).tasks) + 2
    result = tune_network(
        mod,
        weights,
        TARGET,
        tmp_path / "log.json",
        trials,
        instant() if name in QUICK else for_real(),
        task_scheduler="round-robin",
        seed=0,
        evaluate=name not in QUICK,
    )
    assert result.trials == trials
    assert all(row.works for row in result.rows)
    assert name in (*QUICK, *DYNAMIC) or result.comparison.outputs_match
    network.assert_outputs(
        outputs(name, folded, network.inputs, result.best_file), network.expected()
    )
