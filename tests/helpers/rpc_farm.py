"""A tracker and its devices on this machine, some behind a proxy, which tests can kill."""

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager, suppress

from autotvm_opevo.autotvm.rpc import DevicePoolError, addresses

KEY, HOST = "cpu", ("--host", "127.0.0.1")
PATIENCE = 120  # seconds; processes start in a few of them unless the machine is busy


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start(log, *command):
    """Start a process in its own process group, with its output in a file."""
    with open(log, "w") as output:
        command = [sys.executable, "-m", *map(str, command)]
        return subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )


@contextmanager
def farm(folder, count=2):
    """Run a tracker and its devices on loopback; yields the tracker's port and the servers. Their
    output goes to `folder`.
    """
    with tracker(folder) as (port, processes):
        server = ["tvm.exec.rpc_server", *HOST, "--tracker", f"127.0.0.1:{port}", "--key", KEY]
        for i in range(count):
            first = free_port()
            processes.append(
                start(folder / f"server{i}.log", *server, "--port", first, "--port-end", first + 10)
            )
        wait_for_devices(folder, port, count)
        yield port, processes[1:]


@contextmanager
def proxied_farm(folder, *keys):
    """Run a tracker, a proxy and a device of each key behind it on loopback.

    Yields the tracker's port, the devices, and a function that starts another one.
    """
    behind = []
    with tracker(folder) as (port, processes):
        proxy = free_port()
        command = ["tvm.exec.rpc_proxy", *HOST, "--port", proxy, "--port-end", proxy + 1]
        command += ["--tracker", f"127.0.0.1:{port}", "--web-port", 0]
        processes.append(start(folder / "proxy.log", *command))

        def start_device(key=KEY):
            options = ["--port", proxy, "--through-proxy", "--key", key]
            log = folder / f"server{len(processes) - 2}.log"
            processes.append(start(log, "tvm.exec.rpc_server", *HOST, *options))
            behind.append(processes[-1])

        wait_for(
            lambda: is_open(proxy),
            f"the proxy has not started within {PATIENCE} s; see its output in {folder}",
        )
        for key in keys:
            start_device(key)
        for key in keys:
            wait_for_devices(folder, port, 1, key)
        yield port, behind, start_device


@contextmanager
def tracker(folder):
    """Run a tracker on loopback; yields its port, and a list of processes that are killed in the
    end, itself among them.
    """
    port = free_port()
    command = ["tvm.exec.rpc_tracker", *HOST, "--port", port, "--port-end", port + 1]
    # first: a server without a tracker retries only after 5 seconds
    processes = [start(folder / "tracker.log", *command)]
    try:
        wait_for(
            lambda: answers(port),
            f"no answer from the tracker within {PATIENCE} s; see its output in {folder}",
        )
        yield port, processes
    finally:
        for process in processes:
            kill(process)


def kill(process):
    """Kill a process and all that it has started."""
    with suppress(ProcessLookupError):  # a test has killed it
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def wait_for_devices(folder, port, count, key=KEY):
    wait_for(
        lambda: len(addresses(key, "127.0.0.1", port)) == count,
        f"not all devices registered within {PATIENCE} s; see their output in {folder}",
    )


def wait_for(condition, otherwise):
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(otherwise)
        time.sleep(0.2)


def is_open(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def answers(port):
    try:
        addresses(KEY, "127.0.0.1", port)
    except DevicePoolError:
        return False
    return True


def sessions(folder, count=2):
    """Number of sessions that each server has logged."""
    return [(folder / f"server{i}.log").read_text().count("connected from") for i in range(count)]
