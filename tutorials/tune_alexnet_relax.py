"""
Tune AlexNet with MetaSchedule
==============================

TVM 0.20 removed AutoTVM; MetaSchedule, its successor, needs no templates. This script tunes all
operators of a network with OpEvo as its search strategy, compiles the network with the best
schedules, and runs it::

    python tutorials/tune_alexnet_relax.py  # this machine, 208 trials: a minute or two
    python tutorials/tune_alexnet_relax.py --target nvidia/nvidia-h100    # a GPU
    python tutorials/tune_alexnet_relax.py --trials 1000                  # resumes after the 208

You can interrupt it at any time: the same command resumes with the remaining trials.

It needs MetaSchedule. After ``make setup-tvm``, ``python`` is ``.venv/tvm/bin/python``.
"""

import argparse
import logging
import tempfile

import numpy as np
import tvm
from tvm import relax
from tvm.s_tir import meta_schedule as ms

from autotvm_opevo import use_all_cores
from autotvm_opevo.meta_schedule import (
    LocalBuilder,
    OpEvoStrategy,
    as_target,
    compile_network,
    local_target,
    lower_for_tuning,
    tune_network,
)
from autotvm_opevo.networks.relax import alexnet

parser = argparse.ArgumentParser(description="Tune AlexNet with OpEvo and MetaSchedule.")
parser.add_argument("--target", help="TVM target (default: this machine's)")
parser.add_argument("--batch", type=int, default=1, help="batch size (default: 1)")
parser.add_argument(
    "--trials",
    type=int,
    default=208,
    help="number of trials, including earlier ones (default: 208)",
)
parser.add_argument(
    "--work-dir",
    default="tuned/alexnet-relax",
    help="work directory (default: tuned/alexnet-relax)",
)
options = parser.parse_args()
use_all_cores()  # TVM's default is half of them, for hyper-threads

# %%
# The network
# -----------
# AlexNet in Relax, with random weights. For your own ONNX model, ``model_file`` in the same module
# returns the same pair; :doc:`tune_your_model` has PyTorch, too.

mod, params = alexnet(options.batch)
target = as_target(options.target or local_target())

# %%
# Tuning
# ------
# Every distinct fused operator is a task. The strategy is OpEvo with its Gaussian-process
# surrogate; ``strategy=OpEvoStrategy(surrogate=None)`` is OpEvo as published.

result = tune_network(mod, params, target, options.work_dir, trials=options.trials, seed=0)
print(result)

# %%
# Use the result
# --------------
# The printed result compares the network before and after tuning. To use it, compile the network
# with the database of the best.

executable = compile_network(mod, params, target, result.best_file)
device = tvm.device("cpu" if target.kind.name == "llvm" else target.kind.name)
machine = relax.VirtualMachine(executable, device)
image = np.random.default_rng(1).standard_normal((options.batch, 3, 224, 224)).astype("float32")
probabilities = machine["main"](tvm.runtime.tensor(image, device=device)).numpy()
print(
    f"class {probabilities[0].argmax()} of {probabilities.shape[1]}, with probability "
    f"{probabilities[0].max():.4f}"
)

# %%
# In an existing script
# ---------------------
# The strategy alone is enough: pass it wherever MetaSchedule takes one.

logging.getLogger("tvm.s_tir.meta_schedule").setLevel(logging.WARNING)  # or TVM logs every step
small = ms.relax_integration.extract_tasks(lower_for_tuning(mod, params, target), target)[0]
with tempfile.TemporaryDirectory() as folder:
    database = ms.tune_tir(
        small.dispatched[0],
        target,
        folder,
        max_trials_global=8,
        strategy=OpEvoStrategy(seed=0),  # was: "evolutionary"
        builder=LocalBuilder(),
        cost_model="none",
    )
print(f"{small.task_name}: {len(database)} trials")
