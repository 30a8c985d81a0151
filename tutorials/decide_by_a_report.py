"""
Decide by a report
==================

Is a result good enough, or should tuning go on? The log has most of the answer::

    python tutorials/decide_by_a_report.py       # this machine's CPU: a minute on two cores

It needs AutoTVM. After ``make setup``, ``python`` is ``.venv/autotvm/bin/python``.
"""

import os
import shutil
import tempfile

os.environ.setdefault("TOPHUB_LOCATION", "NONE")  # or TVM downloads pre-tuned schedules

from autotvm_opevo import tune_network
from autotvm_opevo.autotvm import compare_logs, local_target
from autotvm_opevo.networks.relay import operator
from autotvm_opevo.reporting import summarize

# %%
# A short run, and its verdict
# ----------------------------
# ``python -m autotvm_opevo report conv2d.json`` prints the same, and ``-o report.html`` writes the
# page with plots.


def tune(trials, log):
    mod, params = operator(
        "nn.conv2d",
        [(1, 24, 30, 30), (40, 24, 3, 3)],
        attributes={"padding": (1, 1), "channels": 40, "kernel_size": (3, 3)},
    )
    tune_network(mod, params, local_target(), log, trials=trials, seed=0, evaluate=False)
    print(summarize(log), end="\n\n")
    return mod, params


# %%
# More trials, and their gain
# ---------------------------
# The same call with more trials resumes from the log. Only timing both interleaved can tell
# whether the new best is faster: between the runs the machine may have become faster or slower. The
# networks take longer than their operator, because they also convert layouts.


def main():
    with tempfile.TemporaryDirectory() as folder:
        log, short, longer = (f"{folder}/{name}.json" for name in ("conv2d", "short", "longer"))
        tune(8, log)
        shutil.copy(f"{folder}/conv2d.best.json", short)
        mod, params = tune(48, log)
        shutil.copy(f"{folder}/conv2d.best.json", longer)
        print(compare_logs(mod, params, local_target(), [short, longer], time_limit=20))


if __name__ == "__main__":
    main()

# %%
# What it prints
# --------------
# On two cores of an AMD EPYC, with lines wrapped::
#
#     conv2d.json: 8 trials of 1 task in 12 s, the first at 2026-11-27 03:42 UTC; tuned by
#         OpEvoTuner, seed 0
#     Converged? Too early to tell: fewer than 64 trials per operator.
#     How good? 0.479 ms, 33 GFLOPS, 49% of what the roofline bounds allow.
#     How sure? Every best was re-measured; timings differ by 3.7%; another configuration may be
#         as fast for conv2d_NCHWc.x86 1x24x30x30 40x24x3x3.
#     Where did the time go? starting 8.4 s, building 1.9 s, running 1.2 s.
#     What next? More trials: tune again into this log, 16 in all: python
#         tutorials/decide_by_a_report.py
#
#     conv2d.json: 48 trials of 1 task in 29 s, the first at 2026-11-27 03:42 UTC; tuned by
#         OpEvoTuner, seed 0
#     Converged? No: the last half of the trials brought 17%.
#     How good? 0.249 ms, 63 GFLOPS, 75% of what the roofline bounds allow.
#     How sure? Every best was re-measured; timings differ by 1.0%; another configuration may be
#         as fast for conv2d_NCHWc.x86 1x24x30x30 40x24x3x3.
#     Where did the time go? starting 11 s, building 8.5 s, running 7.1 s, re-measuring 1.2 s,
#         searching 1.2 s.
#     What next? More trials: tune again into this log, 96 in all: python
#         tutorials/decide_by_a_report.py
#
#     network         ms  (95% interval)
#     untuned      0.488  (0.335 to 0.711)
#     short.json   0.489  (0.353 to 0.679)  0.998 times as fast as untuned (0.807 to 1.234)
#     longer.json  0.298  (0.265 to 0.335)  1.64 times as fast as untuned (1.22 to 2.20)
#     5 rounds, interleaved; ended by: decided
#     outputs match, relative error 0.0e+00 (short.json), 5.2e-07 (longer.json)
#
#     longer.json is 1.64 times as fast as short.json (1.27 to 2.12)
#
#     where the logs differ most, ms of a run as measured while tuning, not interleaved
#     operator                               runs  short.json  longer.json
#     conv2d_NCHWc.x86 1x24x30x30 40x24x3x3     1       0.479        0.249
#
#     interleaved, each alone
#     operator                               short.json  longer.json
#     conv2d_NCHWc.x86 1x24x30x30 40x24x3x3       0.408        0.245  longer.json 1.67 times as fast
#         (1.39 to 1.99)
