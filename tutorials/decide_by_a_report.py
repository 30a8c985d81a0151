"""
Decide by a report
==================

Is a result good enough, or should tuning go on? The log has most of the answer::

    python tutorials/decide_by_a_report.py       # this machine's CPU: a minute on two cores

It needs AutoTVM: ``make setup`` makes an environment with it, whose ``python`` is ``.venv/autotvm/bin/python``.
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
# ``python -m autotvm_opevo report conv2d.json`` prints the same, and ``-o report.html`` writes the page that shows where each
# answer comes from.


def tune(trials, log):
    mod, params = operator(
        "nn.conv2d", [(1, 24, 30, 30), (40, 24, 3, 3)], attributes={"padding": (1, 1), "channels": 40, "kernel_size": (3, 3)}
    )
    tune_network(mod, params, local_target(), log, trials=trials, seed=0, evaluate=False)
    print(summarize(log), end="\n\n")
    return mod, params


# %%
# Go on, and see what that brought
# --------------------------------
# The same call with more trials resumes from the log. Whether the new best is faster, only timing both in turn can tell: between
# the runs the machine itself may have become faster or slower. The networks take longer than their operator, because they also
# convert layouts.


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
#     conv2d.json: 8 trials of 1 task in 6.1 s, the first at 2026-11-25 21:12 UTC; tuned by OpEvoTuner, seed 0; 1 of 1 task
#         learned from others: common layers (1 task)
#     Converged? Too early to tell.
#     How good? 0.239 ms, 66 GFLOPS, 61% of what this machine's limits allow; most is left in conv2d_NCHWc.x86 1x24x30x30
#         40x24x3x3, at 61% of its limit.
#     How sure? The best of 1 of 1 operator, 100% of the latency, was timed again in turn; timings of the same configuration
#         differ by 0.6%.
#     Where did the time go? starting 4.8 s, building 1.3 s.
#     What next? More trials: tune again into this log, with trials=16.
#
#     conv2d.json: 48 trials of 1 task in 16 s, the first at 2026-11-25 21:12 UTC; tuned by OpEvoTuner, seed 0; 1 of 1 task
#         learned from others: common layers (1 task); with what was known before, the best of the first 8 trials has 64% of
#         the final speed (median)
#     Converged? Probably not: the last quarter of the trials brought 1.3%. As many trials again would bring what the
#         machine's limits leave, 5.5%, if they go as other runs did.
#     How good? 0.153 ms, 103 GFLOPS, 95% of what this machine's limits allow; 1 of 1 operator reaches 90% of the limit:
#         more trials of those are hardly worth it.
#     How sure? Every best rests on one trial, maybe a lucky one: the run was too short, or ended too soon, to time it
#         again.
#     Where did the time go? starting 6.5 s, running 4.8 s, building 4.8 s, confirming 0.6 s, searching 0.6 s.
#     What next? Nothing: use the result. Every operator reaches 90% of its limit.
#
#     network         ms  (95% interval)
#     untuned      0.293  (0.287 to 0.3)
#     short.json   0.294  (0.288 to 0.3)    0.996 times as fast as untuned (0.976 to 1.016)
#     longer.json  0.216  (0.207 to 0.224)  1.36 times as fast as untuned (1.32 to 1.39)
#     5 rounds, timed in turn; ended by: decided
#     outputs match, relative error 0.0e+00 (short.json), 6.2e-07 (longer.json)
#
#     longer.json is 1.36 times as fast as short.json (1.31 to 1.43)
#
#     where the logs differ most, ms of a run as measured while tuning, not in turn
#     operator                               runs  short.json  longer.json
#     conv2d_NCHWc.x86 1x24x30x30 40x24x3x3     1       0.238        0.153
#
#     timed in turn, each alone
#     operator                               short.json  longer.json
#     conv2d_NCHWc.x86 1x24x30x30 40x24x3x3        0.24        0.154  longer.json 1.55 times as fast (1.52 to 1.58)
