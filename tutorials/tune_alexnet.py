"""
Tune AlexNet with OpEvo
=======================

This script tunes all operators of a network from one budget of trials, compiles the network with
the best configurations, and runs it::

    python tutorials/tune_alexnet.py  # this machine, 200 trials: two minutes on two cores
    python tutorials/tune_alexnet.py --target cuda --batch 16    # an NVIDIA GPU
    python tutorials/tune_alexnet.py --trials 1000               # resumes after the 200

You can interrupt it at any time: the same command resumes with the remaining trials.

It needs AutoTVM. After ``make setup``, ``python`` is ``.venv/autotvm/bin/python``.
"""

import argparse
import os
from pathlib import Path

os.environ.setdefault("TOPHUB_LOCATION", "NONE")  # or TVM downloads pre-tuned schedules

import numpy as np
import tvm
from tvm import autotvm, relay
from tvm.contrib import graph_executor

from autotvm_opevo import OpEvoTuner, tune_network, use_all_cores
from autotvm_opevo.autotvm import LocalBuilder, LocalRunner, local_target
from autotvm_opevo.networks.relay import alexnet

# %%
# The network
# -----------
# AlexNet in Relay, with random weights. For your own model, ``relay.frontend`` returns the same
# pair.

parser = argparse.ArgumentParser(description="Tune AlexNet with OpEvo.")
parser.add_argument("--target", help="TVM target (default: this machine's)")
parser.add_argument("--batch", type=int, default=1, help="batch size (default: 1)")
parser.add_argument(
    "--trials",
    type=int,
    default=200,
    help="number of trials, including earlier ones (default: 200)",
)
parser.add_argument("--time-limit", type=float, help="seconds for all trials and re-measurements")
parser.add_argument(
    "--log",
    type=Path,
    default=Path("tuned/alexnet.json"),
    help="AutoTVM log (default: tuned/alexnet.json)",
)
options = parser.parse_args()
options.log.parent.mkdir(parents=True, exist_ok=True)
use_all_cores()  # TVM's default is half of them, for hyper-threads

mod, params = alexnet(options.batch)
target = tvm.target.Target(options.target or local_target())

# %%
# Measurement
# -----------
# A builder and a runner with AutoTVM's parameters, but with workers that start faster. A GPU is
# measured for longer, because its clock takes time to ramp up.

measure_option = autotvm.measure_option(
    builder=LocalBuilder(timeout=10),
    runner=LocalRunner(
        number=1,
        repeat=3,
        min_repeat_ms=50 if target.kind.name == "llvm" else 150,
        cooldown_interval=0,
        timeout=10,
    ),
)

# %%
# Tuning
# ------
# Every distinct workload is a task. The gradient-based task scheduler spends trials where they
# should reduce the network's latency most: on tasks that run often, take long and still improve.

result = tune_network(
    mod,
    params,
    target,
    log_file=options.log,
    trials=options.trials,
    measure_option=measure_option,
    time_limit=options.time_limit,
    tuner=OpEvoTuner,  # or any AutoTVM tuner
    seed=0,
)
print(result)

# %%
# Use the result
# --------------
# The printed result compares the network before and after tuning. To use it, apply the best
# records, as always with AutoTVM. The exported library needs TVM, but neither this package nor the
# log.

with autotvm.apply_history_best(str(result.best_file)), tvm.transform.PassContext(opt_level=3):
    library = relay.build(mod, target=target, params=params)
file = options.log.with_suffix(".so")
library.export_library(str(file))

network = graph_executor.GraphModule(
    tvm.runtime.load_module(str(file))["default"](tvm.device(target.kind.name, 0))
)
network.run(
    data=np.random.default_rng(0).standard_normal((options.batch, 3, 224, 224), dtype="float32")
)
print("classes:", network.get_output(0).numpy().argmax(axis=1))
