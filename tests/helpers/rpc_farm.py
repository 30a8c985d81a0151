"""A tracker and its devices on this machine, which tests can kill."""

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager

from autotvm_opevo.autotvm.rpc import DevicePoolError, devices

KEY = "cpu"
PATIENCE = 120  # seconds; processes start in a few of them unless the machine is busy


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
