"""
Tune on several devices
=======================

Phones, boards and GPUs are tuned over TVM's RPC: each device runs a server that registers with a
tracker, and every trial goes to a free device. This script does so in Python, with a tracker and
two devices that are this machine::

    python tutorials/tune_on_a_farm.py       # two devices, 24 trials: half a minute

:doc:`/how_to/devices` has the commands for a farm, and what happens when a device fails.

It needs AutoTVM. After ``make setup``, ``python`` is ``.venv/autotvm/bin/python``.
"""

import os
import tempfile

os.environ.setdefault("TOPHUB_LOCATION", "NONE")  # or TVM downloads pre-tuned schedules

from tvm import autotvm
from tvm.rpc.server import Server
from tvm.rpc.tracker import Tracker

from autotvm_opevo import tune_network
from autotvm_opevo.autotvm import LocalBuilder, local_target
from autotvm_opevo.networks.relay import operator

# %%
# Tuning on the devices
# ---------------------
# Only the runner differs from tuning on one machine. ``n_parallel`` is the number of devices used
# at the same time.


def tune(host, port, log):
    mod, params = operator(
        "nn.conv2d",
        [(1, 16, 28, 28), (32, 16, 3, 3)],
        attributes={"padding": (1, 1), "channels": 32, "kernel_size": (3, 3)},
    )
    measure_option = autotvm.measure_option(
        builder=LocalBuilder(timeout=10),
        runner=autotvm.RPCRunner(
            "cpu", host, port, n_parallel=2, number=1, repeat=3, min_repeat_ms=20, timeout=10
        ),
    )
    return tune_network(mod, params, local_target(), log, trials=24, measure_option=measure_option)


# %%
# A farm on this machine
# ----------------------
# A tracker and two servers, in processes of their own.


def main():
    tracker = Tracker("127.0.0.1", silent=True)
    address = "127.0.0.1", tracker.port
    servers = [Server("127.0.0.1", tracker_addr=address, key="cpu", silent=True) for _ in range(2)]
    try:
        with tempfile.TemporaryDirectory() as folder:
            print(tune(*address, f"{folder}/log.json"))
    finally:
        for process in [*servers, tracker]:
            process.terminate()


if __name__ == "__main__":
    main()

# %%
# What it prints
# --------------
# On two cores of an AMD EPYC, in 30 seconds::
#
#     task                                  trials      ms GFLOPS share bound failed
#     conv2d_NCHWc.x86 1x16x28x28 32x16x3x3     24  0.0784   93.4  100%     -
#     24 trials, 24 of them now in 11 s; ended by: trials
#     time: running 5 s, starting 4 s, re-measuring 2 s
#     sum of the tuned operators, as measured: 0.0784 ms
#     network     ms  (95% interval)
#     untuned  0.123  (0.121 to 0.125)
#     tuned    0.121  (0.12 to 0.122)   1.021 times as fast as untuned (1.002 to 1.039)
#     outputs match, relative error 0.0e+00
#     log: /tmp/.../log.json
#     best: /tmp/.../log.best.json
