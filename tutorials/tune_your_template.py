"""
Tune a template of your own
===========================

A template is a schedule with knobs. This one is of a matrix product; AutoTVM tunes it with
``OpEvoTuner`` in place of ``XGBTuner``::

    # this machine's CPU, 32 trials: half a minute on two cores
    python tutorials/tune_your_template.py

It needs AutoTVM. After ``make setup``, ``python`` is ``.venv/autotvm/bin/python``.
"""

import argparse
import os

os.environ.setdefault("TOPHUB_LOCATION", "NONE")  # or TVM downloads pre-tuned schedules

import numpy as np
import tvm
from tvm import autotvm, te

from autotvm_opevo import OpEvoTuner
from autotvm_opevo.autotvm import LocalBuilder, LocalRunner
from autotvm_opevo.autotvm.targets import local_cpu_target

parser = argparse.ArgumentParser(description="Tune a template of your own.")
parser.add_argument(
    "--trials", type=int, default=32, help="number of configurations to measure (default: 32)"
)
parser.add_argument(
    "--log",
    default="my_matmul.json",
    help="AutoTVM log, resumed if it exists (default: my_matmul.json)",
)
options = parser.parse_args()

# %%
# The template
# ------------
# The computation, then a schedule whose choices are knobs. OpEvo sees the tiles as factorizations
# of 256: from ``[-1, 8]`` a step leads to ``[-1, 4]`` and ``[-1, 16]``. The unroll factors are
# numbers on a line.


@autotvm.template("my/matmul")
def matmul(n):
    a, b = te.placeholder((n, n), name="a"), te.placeholder((n, n), name="b")
    r = te.reduce_axis((0, n), name="r")
    c = te.compute((n, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="c")
    schedule = te.create_schedule(c.op)
    y, x = schedule[c].op.axis

    cfg = autotvm.get_config()
    cfg.define_split("tile_y", y, num_outputs=2)
    cfg.define_split("tile_x", x, num_outputs=2)
    cfg.define_knob("unroll", [0, 16, 64])

    y_outer, y_inner = cfg["tile_y"].apply(schedule, c, y)
    x_outer, x_inner = cfg["tile_x"].apply(schedule, c, x)
    schedule[c].reorder(y_outer, x_outer, r, y_inner, x_inner)
    schedule[c].vectorize(x_inner)
    schedule[c].pragma(y_outer, "auto_unroll_max_step", cfg["unroll"].val)
    return schedule, [a, b, c]


# %%
# Tune
# ----

target = tvm.target.Target(local_cpu_target())  # the template has no threads of a GPU
task = autotvm.task.create("my/matmul", args=(256,), target=target)

tuner = OpEvoTuner(task)  # was: XGBTuner(task)
if os.path.exists(options.log):
    tuner.load_history(autotvm.record.load_from_file(options.log))  # resumes
tuner.tune(
    n_trial=options.trials,
    measure_option=autotvm.measure_option(
        LocalBuilder(), LocalRunner(number=1, repeat=3, min_repeat_ms=10)
    ),
    callbacks=[
        autotvm.callback.progress_bar(options.trials),
        autotvm.callback.log_to_file(options.log),
    ],
)

# %%
# Use the best
# ------------
# The template, called where the log is applied, takes its best configuration.

with target, autotvm.apply_history_best(options.log):
    product = tvm.build(*matmul(256))

a, b = np.random.default_rng(0).standard_normal((2, 256, 256), dtype="float32")
arrays = [tvm.nd.array(array) for array in (a, b, np.zeros_like(a))]
product(*arrays)
np.testing.assert_allclose(arrays[2].numpy(), a @ b, rtol=1e-3, atol=1e-3)
seconds = product.time_evaluator(product.entry_name, tvm.cpu(), repeat=5, min_repeat_ms=20)(
    *arrays
).median
print(f"the product is right, at {task.flop / seconds / 1e9:.1f} GFLOPS")

# %%
# What it prints
# --------------
# On two cores of an Intel Xeon, in 15 seconds, below AutoTVM's progress bar::
#
#     the product is right, at 115.1 GFLOPS
