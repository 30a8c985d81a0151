"""
Decide by a report
==================

Is a result good enough, or should tuning go on? The log knows most of the answer::

    python tutorials/decide_by_a_report.py       # this machine's CPU: a minute on two cores

It needs AutoTVM: ``make setup`` makes an environment with it, whose ``python`` is ``.venv/autotvm/bin/python``.
"""

import os
import shutil
import tempfile

os.environ.setdefault("TOPHUB_LOCATION", "NONE")  # or TVM downloads pre-tuned schedules

from autotvm_opevo import report, tune_network
from autotvm_opevo.autotvm import compare_logs, local_target
from autotvm_opevo.autotvm.workloads import operator
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
# Go on where it says so, and see what that brought
# -------------------------------------------------
# The same call with more trials resumes from the log. Whether the new best is faster, only timing both in turn can tell: between
# the runs the machine itself may have become faster or slower.


def main():
    with tempfile.TemporaryDirectory() as folder:
        log, short, longer = (f"{folder}/{name}.json" for name in ("conv2d", "short", "longer"))
        tune(8, log)
        shutil.copy(f"{folder}/conv2d.best.json", short)
        mod, params = tune(48, log)
        shutil.copy(f"{folder}/conv2d.best.json", longer)
        print(compare_logs(mod, params, local_target(), [short, longer], time_limit=20))
        report(log, out=f"{folder}/report.html")


if __name__ == "__main__":
    main()

# %%
# What it prints
# --------------
# On two cores of an AMD EPYC, beside other work, with lines wrapped::
#
#     conv2d.json: 8 trials of 1 task in 6.4 s, the first at 2026-11-25 18:55 UTC; tuned by OpEvoTuner, seed 0; 1 of 1 task
#         learned from others: common layers (1 task)
#     Converged? Too early to tell.
#     How good? 0.239 ms, 66 GFLOPS, 61% of what this machine's limits allow; most is left in conv2d_NCHWc.x86 1x24x30x30
#         40x24x3x3, at 61% of its limit.
#     How sure? The best of 1 of 1 operator, 100% of the latency, was timed again in turn; timings of the same configuration
#         differ by 7.1%.
#     Where did the time go? starting 4.7 s, building 2.2 s, running 0.6 s.
#     What next? More trials: tune again into this log, with trials=16.
#
#     conv2d.json: 48 trials of 1 task in 22 s, the first at 2026-11-25 18:55 UTC; tuned by OpEvoTuner, seed 0; 1 of 1 task
#         learned from others: common layers (1 task); with what was known before, the best of the first 8 trials has 69% of
#         the final speed (median)
#     Converged? Probably not: the last quarter of the trials brought 1.6%. As many trials again would bring what the
#         machine's limits leave, 13%, if they go as other runs did.
#     How good? 0.164 ms, 96 GFLOPS, 89% of what this machine's limits allow; most is left in conv2d_NCHWc.x86 1x24x30x30
#         40x24x3x3, at 89% of its limit.
#     How sure? The best of 1 of 1 operator, 100% of the latency, was timed again in turn; timings of the same configuration
#         differ by 1.4%; another configuration may be as fast for conv2d_NCHWc.x86 1x24x30x30 40x24x3x3.
#     Where did the time go? building 9.5 s, starting 6.5 s, running 6.3 s, searching 1.1 s, confirming 0.9 s.
#     What next? More trials: tune again into this log, with trials=96.
#
#     network         ms  (95% interval)
#     untuned       0.45  (0.378 to 0.534)
#     short.json   0.428  (0.364 to 0.503)  1.05 times as fast as untuned (0.86 to 1.29)
#     longer.json  0.341  (0.29 to 0.402)   1.32 times as fast as untuned (1.02 to 1.70)
#     27 rounds, timed in turn; ended by: decided
#     outputs match, relative error 0.0e+00 (short.json), 0.0e+00 (longer.json)
#
#     longer.json is 1.254 times as fast as short.json (1.005 to 1.563)
#
#     where the logs differ most, ms of a run as measured while tuning, not in turn
#     operator                               runs  short.json  longer.json
#     conv2d_NCHWc.x86 1x24x30x30 40x24x3x3     1       0.401        0.197
#
#     the same, timed in turn, each alone
#     operator                               short.json  longer.json
#     conv2d_NCHWc.x86 1x24x30x30 40x24x3x3       0.411        0.253  longer.json 1.62 times as fast (1.09 to 2.43)
