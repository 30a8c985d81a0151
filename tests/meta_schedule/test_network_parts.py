"""What a network adds to its operators: benchmarks/network_parts.py."""

import numpy as np
import tvm
from tvm import relax

from autotvm_opevo.meta_schedule import compile_network
from autotvm_opevo.networks import relax as workloads
from benchmarks import resume
from benchmarks.network_parts import Parts, save, time_parts, weights_of


def test_every_operator_of_a_network_is_timed_in_sequence_and_hot():
    mod, params = workloads.mlp()
    executable = compile_network(mod, params, "llvm", None)
    machine = relax.VirtualMachine(executable, tvm.cpu())
    shape = [int(extent) for extent in mod["main"].params[0].ty.shape]
    data = tvm.runtime.tensor(np.zeros(shape, "float32"))
    in_sequence, hot = time_parts(machine, lambda: machine["main"](data), seconds=0.001)
    assert in_sequence.keys() == hot.keys()
    assert [int(call.split()[0]) for call in hot] == list(range(len(hot)))
    assert len(hot) >= 2
    assert min([*in_sequence.values(), *hot.values()]) > 0


def test_the_weights_of_an_operator_are_what_no_operator_wrote_but_for_the_networks_input():
    mod, _ = workloads.operator("matmul", [(8, 64), (64, 32)])
    weights = {"input1": np.ones((64, 32), "float32")}
    executable = compile_network(mod, weights, "llvm", None)
    machine = relax.VirtualMachine(executable, tvm.cpu())
    data = tvm.runtime.tensor(np.zeros((8, 64), "float32"))
    assert weights_of(machine, lambda: machine["main"](data)) == [4 * 64 * 32]


def test_what_was_measured_is_kept_in_a_folder_that_did_not_exist(tmp_path):
    parts = Parts("mlp", "0.27", 1.0, {"0 matmul": 1.0}, {"0 matmul": 2.0}, 3.0)
    save(parts, tmp_path / "new" / "parts.jsonl")
    assert [Parts(**saved) for saved in resume.read(tmp_path / "new" / "parts.jsonl")] == [parts]
