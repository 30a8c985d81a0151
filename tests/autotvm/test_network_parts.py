"""What a network adds to its operators, with AutoTVM: benchmarks/network_parts_relay.py."""

import json

import tvm
from tvm.contrib.debugger.debug_executor import GraphModuleDebug

from autotvm_opevo.autotvm.evaluation import build
from autotvm_opevo.autotvm.folding import fold
from autotvm_opevo.networks import relay as workloads
from benchmarks.network_parts_relay import time_parts


def test_every_operator_of_a_network_but_reshapes_is_timed_in_sequence_and_hot(tmp_path):
    library = build(fold(*workloads.network("mlp")), tvm.target.Target("llvm"))
    graph, device = library.get_graph_json(), tvm.cpu()
    create = library["debug_create"]("default", device)
    executor = GraphModuleDebug(create, [device], graph, str(tmp_path))
    in_sequence, hot = time_parts(executor, json.loads(graph)["nodes"], seconds=0.005)
    assert in_sequence.keys() == hot.keys()
    assert sum("dense" in call for call in hot) == 3
    assert not any("nop" in call for call in hot)
    assert min([*in_sequence.values(), *hot.values()]) > 0
