"""
Tune AlexNet with today's TVM
=============================

Since TVM 0.20 there is no AutoTVM; MetaSchedule has taken its place, and needs no templates. This script tunes all operators of
a network with OpEvo as MetaSchedule's search strategy, compiles the network with what was found, and uses it::

    python tutorials/tune_alexnet_relax.py                                # this machine's CPU, 208 trials: four minutes
    python tutorials/tune_alexnet_relax.py --target nvidia/nvidia-h100    # a GPU
    python tutorials/tune_alexnet_relax.py --trials 1000                  # goes on from the 208

Stop it whenever you like: the same command goes on with what is left of the trials.
"""

import argparse
import logging

import numpy as np
import tvm
from tvm import relax
from tvm.s_tir import meta_schedule as ms

from autotvm_opevo.meta_schedule import OpEvoStrategy, as_target, local_builder, lower_for_tuning, open_database, tune_network
from autotvm_opevo.meta_schedule.workloads import alexnet

parser = argparse.ArgumentParser(description="Tune AlexNet with OpEvo and today's TVM.")
parser.add_argument("--target", default="llvm -mcpu=core-avx2", help="a target of TVM (default: llvm -mcpu=core-avx2)")
parser.add_argument("--batch", type=int, default=1, help="images at once (default: 1)")
parser.add_argument("--trials", type=int, default=208, help="in all, those in the folder included (default: 208)")
parser.add_argument("--work-dir", default="tuned/alexnet-relax", help="MetaSchedule's folder (default: tuned/alexnet-relax)")
options = parser.parse_args()

# %%
# What to tune
# ------------
# A network in Relax: here AlexNet with arbitrary weights. With yours, one of ``relax.frontend`` gives the same two things.

mod, params = alexnet(options.batch)
target = as_target(options.target)

# %%
# Tuning
# ------
# Every distinct fused operator is a task, and TVM's gradient scheduler says which is next. The strategy is OpEvo with its
# surrogate; without ``surrogate="q-walk"`` it is OpEvo as published. The builder is TVM's, whose processes start sooner with
# this package's build function.

report = tune_network(
    mod,
    params,
    target,
    options.work_dir,
    trials=options.trials,
    strategy=OpEvoStrategy(seed=0),
    builder=local_builder(),
    seed=0,
)
print(report)

# %%
# Using what was found
# --------------------
# The report has compared the network before and after. To use it, apply the database, as any user of MetaSchedule does. The
# network must be lowered and fused as it was when it was tuned.

lowered = lower_for_tuning(mod, params, target)
with target, open_database(options.work_dir), tvm.transform.PassContext(opt_level=3):
    executable = tvm.compile(relax.transform.MetaScheduleApplyDatabase()(lowered), target)
device = tvm.device("cpu" if target.kind.name == "llvm" else target.kind.name)
machine = relax.VirtualMachine(executable, device)
image = np.random.default_rng(1).standard_normal((options.batch, 3, 224, 224)).astype("float32")
probabilities = machine["main"](tvm.runtime.tensor(image, device=device)).numpy()
print(f"class {probabilities[0].argmax()} of {probabilities.shape[1]}, with probability {probabilities[0].max():.4f}")

# %%
# In a script that you already have
# ---------------------------------
# The strategy alone is enough: it goes wherever MetaSchedule takes one.

logging.getLogger("tvm.s_tir.meta_schedule").setLevel(logging.WARNING)  # or TVM tells every step on the terminal
small = ms.relax_integration.extract_tasks(lowered, target)[0]
folder = f"{options.work_dir}/one-operator"
database = ms.tune_tir(
    small.dispatched[0],
    target,
    folder,
    max_trials_global=8,
    strategy=OpEvoStrategy(seed=0),  # was: "evolutionary"
    builder=local_builder(),
    cost_model="none",
    database=open_database(folder),
)
print(f"{small.task_name}: {len(database)} trials")
