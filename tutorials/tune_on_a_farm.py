"""
Tune on several devices
=======================

Phones, boards and GPUs are tuned over TVM's RPC: each device runs a server that registers with a tracker, and every trial goes to
a free device. Three commands do it::

    python -m tvm.exec.rpc_tracker --host 0.0.0.0 --port 9190                 # on one machine
    python -m tvm.exec.rpc_server --tracker TRACKER:9190 --key cpu            # on every device
    python -m autotvm_opevo tune --network alexnet --target "llvm -mcpu=core-avx2" --log alexnet.json \\
        --rpc-tracker TRACKER:9190 --rpc-key cpu                              # where the tracker can be reached

This script runs the first two here, so that tracker and devices are this machine, and does in Python what the third does::

    python tutorials/tune_on_a_farm.py       # two devices, 24 trials: half a minute

If a device dies or hangs during a trial, the trial is run once more on another device.

It needs AutoTVM: ``make setup`` makes an environment with it, whose ``python`` is ``.venv/autotvm/bin/python``.
"""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

os.environ.setdefault("TOPHUB_LOCATION", "NONE")  # or TVM downloads pre-tuned schedules

from tvm import autotvm

from autotvm_opevo import tune_network
from autotvm_opevo.autotvm import LocalBuilder, local_target
from autotvm_opevo.autotvm.rpc import DevicePoolError, devices
from autotvm_opevo.autotvm.workloads import operator

# %%
# Tuning on the devices
# ---------------------
# Only the runner differs from tuning on one machine. ``n_parallel`` is the number of devices used at the same time.

KEY = "cpu"


def tune(host, port, log):
    mod, params = operator(
        "nn.conv2d", [(1, 16, 28, 28), (32, 16, 3, 3)], attributes={"padding": (1, 1), "channels": 32, "kernel_size": (3, 3)}
    )
    measure_option = autotvm.measure_option(
        builder=LocalBuilder(timeout=10),
        runner=autotvm.RPCRunner(KEY, host, port, n_parallel=2, number=1, repeat=3, min_repeat_ms=20, timeout=10),
    )
    return tune_network(mod, params, local_target(), log, trials=24, measure_option=measure_option)


# %%
# A farm on this machine
# ----------------------
# What is left starts the tracker and two servers, waits until they have found each other, and ends them.

PATIENCE = 120  # seconds; processes start in a few of them unless the machine is busy


def main():
    with tempfile.TemporaryDirectory() as temporary, farm(Path(temporary)) as (port, _):
        folder = Path(temporary)
        print(tune("127.0.0.1", port, folder / "log.json"))
        used = sessions(folder)
        print(f"sessions on each device: {used}")
        if min(used) == 0:
            sys.exit("one of the devices was never used")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start(log, *command):
    """Start a process in its own process group, with its output in a file."""
    with open(log, "w") as output:
        command = [sys.executable, "-m", *map(str, command)]
        return subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)


@contextmanager
def farm(folder, count=2):
    """Run a tracker and its devices on loopback; yields the tracker's port and the servers. Their output goes to `folder`."""
    port = free_port()
    tracker = ["tvm.exec.rpc_tracker", "--host", "127.0.0.1", "--port", port, "--port-end", port + 1]
    processes = [start(folder / "tracker.log", *tracker)]  # first: a server without a tracker retries only after 5 seconds
    server = ["tvm.exec.rpc_server", "--host", "127.0.0.1", "--tracker", f"127.0.0.1:{port}", "--key", KEY]
    try:
        wait_for(lambda: answers(port), f"no answer from the tracker within {PATIENCE} s; see its output in {folder}")
        for i in range(count):
            first = free_port()
            processes.append(start(folder / f"server{i}.log", *server, "--port", first, "--port-end", first + 10))
        wait_for(
            lambda: devices(KEY, "127.0.0.1", port) == count,
            f"not all devices registered within {PATIENCE} s; see their output in {folder}",
        )
        yield port, processes[1:]
    finally:
        for process in processes:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def wait_for(condition, otherwise):
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(otherwise)
        time.sleep(0.2)


def answers(port):
    try:
        devices(KEY, "127.0.0.1", port)
    except DevicePoolError:
        return False
    return True


def sessions(folder, count=2):
    """Number of sessions that each server has logged."""
    return [(folder / f"server{i}.log").read_text().count("connected from") for i in range(count)]


if __name__ == "__main__":
    main()

# %%
# What it prints
# --------------
# On two cores of an AMD EPYC, in 30 seconds::
#
#     task                                  trials      ms GFLOPS share limit failed
#     conv2d_NCHWc.x86 1x16x28x28 32x16x3x3     24  0.0784   93.4  100%     -
#     24 trials, 24 of them now in 11 s; ended by: trials
#     time: running 5 s, starting 4 s, confirming 2 s
#     sum of the tuned operators, as measured: 0.0784 ms
#     network     ms  (95% interval)
#     untuned  0.123  (0.121 to 0.125)
#     tuned    0.121  (0.12 to 0.122)   1.021 times as fast as untuned (1.002 to 1.039)
#     outputs match, relative error 0.0e+00
#     log: /tmp/.../log.json
#     best: /tmp/.../log.best.json
#     sessions on each device: [18, 14]
