"""
From your ONNX model to a tuned library
=======================================

This script reads a model, tunes it with MetaSchedule, writes a library, and runs it in a process
that imports only TVM and numpy::

    # a small model made here, 32 trials: under a minute on two cores
    python tutorials/tune_your_model.py
    python tutorials/tune_your_model.py --model yours.onnx --trials 1000

You can interrupt it at any time: the same command resumes with the remaining trials. With AutoTVM,
:doc:`tune_alexnet` has the same steps.

It needs MetaSchedule and ONNX. After ``make setup-tvm``, ``python`` is ``.venv/tvm/bin/python``. In
an environment of your own, ``pip install '.[onnx]'``.
"""

import argparse
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import tvm
from onnx import TensorProto, helper, numpy_helper
from tvm import relax

from autotvm_opevo import use_all_cores
from autotvm_opevo.meta_schedule import as_target, compile_network, local_target, tune_network
from autotvm_opevo.networks.relax import model_file

parser = argparse.ArgumentParser(
    description="Tune an ONNX model, export it as a library, and run that."
)
parser.add_argument("--model", type=Path, help="ONNX file (default: a small one, made here)")
parser.add_argument("--target", help="TVM target (default: this machine's)")
parser.add_argument(
    "--trials", type=int, default=32, help="number of trials, including earlier ones (default: 32)"
)
parser.add_argument(
    "--out",
    type=Path,
    default=Path("tuned/your-model"),
    help="output directory (default: tuned/your-model)",
)
options = parser.parse_args()
options.out.mkdir(parents=True, exist_ok=True)
use_all_cores()  # TVM's default is half of them, for hyper-threads

# %%
# The model
# ---------
# An ONNX file: yours, or a convolution and a dense layer.


def save_small_model(path):
    rng = np.random.default_rng(0)
    weights = {"kernel": (32, 3, 3, 3), "matrix": (32, 10)}
    graph = helper.make_graph(
        [
            helper.make_node(
                "Conv", ["image", "kernel"], ["conv"], pads=[1, 1, 1, 1], strides=[2, 2]
            ),
            helper.make_node("Relu", ["conv"], ["relu"]),
            helper.make_node("GlobalAveragePool", ["relu"], ["mean"]),
            helper.make_node("Flatten", ["mean"], ["features"]),
            helper.make_node("MatMul", ["features", "matrix"], ["classes"]),
        ],
        "small",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, (1, 3, 64, 64))],
        [helper.make_tensor_value_info("classes", TensorProto.FLOAT, (1, 10))],
        [
            numpy_helper.from_array(rng.standard_normal(shape, dtype="float32"), name)
            for name, shape in weights.items()
        ],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path
    )


if options.model is None:
    options.model = options.out / "small.onnx"
    save_small_model(options.model)

# %%
# ``model_file`` reads it with TVM's frontend: a Relax module and its weights. For a model of
# PyTorch, with ``example`` a tuple of inputs, the module holds its weights (PyTorch 2.13)::
#
#     from tvm.relax.frontend.torch import from_exported_program
#
#     mod, params = from_exported_program(torch.export.export(model, example)), None

mod, params = model_file(options.model)
target = as_target(options.target or local_target())

# %%
# Tune
# ----

result = tune_network(mod, params, target, options.out / "database", options.trials)
print(result)

# %%
# Export
# ------
# The network is compiled with the best schedules and linked to a shared library. It holds the
# weights, too, packed as these schedules read them.

library = options.out / "model.so"
compile_network(mod, params, target, result.best_file).export_library(str(library))

# %%
# Inference
# ---------
# To run the library, install numpy and the TVM version that built it. It needs neither this
# package, nor the database, nor a compiler.

INFERENCE = """
import sys
import numpy as np
import tvm
from tvm import relax

library, inputs, outputs, device = sys.argv[1:]
device = tvm.device(device)
network = relax.VirtualMachine(tvm.runtime.load_module(library), device)
found = network["main"](*(tvm.runtime.tensor(array, device) for array in np.load(inputs).values()))
np.savez(outputs, *(array.numpy() for array in ([found] if hasattr(found, "numpy") else found)))
assert "autotvm_opevo" not in sys.modules
"""

rng = np.random.default_rng(1)
variables = [variable for variable in mod["main"].params if variable.name not in (params or {})]
shapes = [tuple(map(int, variable.ty.shape)) for variable in variables]
inputs = [rng.standard_normal(shape, dtype="float32") for shape in shapes]
np.savez(options.out / "inputs.npz", *inputs)
kind = "cpu" if target.kind.name == "llvm" else target.kind.name
arguments = [library, options.out / "inputs.npz", options.out / "outputs.npz", kind]
subprocess.run([sys.executable, "-c", INFERENCE, *map(str, arguments)], check=True)

# %%
# The same network as imported, without this package, must compute the same.

untuned = tvm.compile(relax.transform.BindParams("main", params or {})(mod), target)
device = tvm.device(kind)
expected = relax.VirtualMachine(untuned, device)["main"](
    *(tvm.runtime.tensor(array, device) for array in inputs)
)
expected = [array.numpy() for array in ([expected] if hasattr(expected, "numpy") else expected)]
for array, untuned_array in zip(np.load(options.out / "outputs.npz").values(), expected):
    np.testing.assert_allclose(array, untuned_array, rtol=1e-3, atol=1e-3)
print(f"{library} computes what the untuned network does")

# %%
# What it prints
# --------------
# On two cores of an AMD EPYC, in 16 seconds::
#
#     task                                  trials      ms GFLOPS share bound failed
#     matmul 1x32 32x10                          8 2.46e-05   26.0    0%   12%
#     fused_transpose_reshape 1x1x1x32 1x32      1 8.03e-06    0.0    0%     -
#     mean 1x32x32x32 1x1x1x32                  16  0.0122    2.7   48%    1%
#     fused_conv2d_relu 1x64x64x3 3x3x3x32       6 0.00966  186.6   38%   84%
#     transpose 1x3x64x64 1x64x64x3              1 0.00378    0.0   15%     -
#     32 trials, 32 of them now in 9 s; ended by: trials
#     time: starting 4 s, building 2 s, running 2 s, searching 1 s
#     sum of the tuned operators, as measured: 0.0257 ms
#     network      ms  (95% interval)
#     untuned   0.183  (0.181 to 0.185)
#     tuned    0.0619  (0.0481 to 0.0797)  2.95 times as fast as untuned (2.29 to 3.81)
#     outputs match, relative error 2.5e-07
#     log: tuned/your-model/database
#     best: tuned/your-model/database/best
#     tuned in 2 threads: set TVM_NUM_THREADS=2 where it is deployed
#     tuned/your-model/model.so computes what the untuned network does
