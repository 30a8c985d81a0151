"""
Tune AlexNet with OpEvo
=======================

This script tunes all operators of a network from one budget of trials, compiles the network with what was found, and uses it::

    python tutorials/tune_alexnet.py                             # this machine's CPU, 200 trials: five minutes on two cores
    python tutorials/tune_alexnet.py --target cuda --batch 16    # an NVIDIA GPU
    python tutorials/tune_alexnet.py --trials 1000               # goes on from the 200

Stop it whenever you like, with Ctrl-C or with the mains switch: the same command goes on with what is left of the trials.
"""

import argparse
import os
from pathlib import Path

os.environ.setdefault("TOPHUB_LOCATION", "NONE")  # TVM would look for pre-tuned schedules on the network

import numpy as np
import tvm
from tvm import autotvm, relay
from tvm.contrib import graph_executor

from autotvm_opevo import OpEvoTuner, tune_network
from autotvm_opevo.autotvm.workloads import alexnet

# %%
# What to tune
# ------------
# A network in Relay: here AlexNet with arbitrary weights. With yours, ``relay.frontend`` gives the same two things.

parser = argparse.ArgumentParser(description="Tune AlexNet with OpEvo.")
parser.add_argument("--target", default="llvm -mcpu=core-avx2", help="a target of TVM (default: llvm -mcpu=core-avx2)")
parser.add_argument("--batch", type=int, default=1, help="images at once (default: 1)")
parser.add_argument("--trials", type=int, default=200, help="in all, those in the log included (default: 200)")
parser.add_argument("--time-limit", type=float, help="seconds after which nothing is begun")
parser.add_argument("--log", type=Path, default=Path("tuned/alexnet.json"), help="AutoTVM's log (default: tuned/alexnet.json)")
options = parser.parse_args()
options.log.parent.mkdir(parents=True, exist_ok=True)

mod, params = alexnet(options.batch)
target = tvm.target.Target(options.target)

# %%
# How to measure
# --------------
# AutoTVM's own builder and runner. On a GPU a kernel is measured for longer, since the clock takes its time to rise.

measure_option = autotvm.measure_option(
    builder=autotvm.LocalBuilder(timeout=10),
    runner=autotvm.LocalRunner(
        number=1, repeat=3, min_repeat_ms=50 if target.kind.name == "llvm" else 150, cooldown_interval=0, timeout=10
    ),
)

# %%
# Tuning
# ------
# Every distinct workload is a task. Each gets a few trials; from then on, they go where they promise to shorten the network
# most: to tasks that run often, take long, and still improve.

report = tune_network(
    mod,
    params,
    target,
    log_file=options.log,
    trials=options.trials,
    measure_option=measure_option,
    time_limit=options.time_limit,
    tuner=OpEvoTuner,  # or any other of AutoTVM's
    seed=0,
)
print(report)

# %%
# Using what was found
# --------------------
# The report has compared the network before and after. To use it, apply the best records, as any user of AutoTVM does:

with autotvm.apply_history_best(str(report.best_file)), tvm.transform.PassContext(opt_level=3):
    library = relay.build(mod, target=target, params=params)
network = graph_executor.GraphModule(library["default"](tvm.device(target.kind.name, 0)))
network.run(data=np.random.default_rng(0).standard_normal((options.batch, 3, 224, 224), dtype="float32"))
print("classes:", network.get_output(0).numpy().argmax(axis=1))
