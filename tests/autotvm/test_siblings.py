"""Devices of one key that are not alike, on loopback."""

import logging
import os
import signal
import threading
import time
from contextlib import contextmanager

import pytest
import tvm
from instant_measuring import TIMEOUT
from rpc_farm import KEY, farm
from small_templates import matmul_task
from tvm import autotvm, rpc
from tvm.autotvm.measure import MeasureInput

from autotvm_opevo.autotvm import LocalBuilder
from autotvm_opevo.autotvm.rpc import DevicePool
from autotvm_opevo.autotvm.siblings import slow_devices, time_on_each


@contextmanager
def slowed(server):
    """Stop a server and what it has started for most of the time: other work slows its sibling down, too."""
    done = threading.Event()

    def throttle():
        while not done.is_set():
            os.killpg(server.pid, signal.SIGSTOP)
            time.sleep(0.15)
            os.killpg(server.pid, signal.SIGCONT)
            time.sleep(0.01)

    thread = threading.Thread(target=throttle)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """For the output of `pair`."""
    return tmp_path_factory.mktemp("farm")


@pytest.fixture(scope="module")
def pair(folder):
    """A tracker's port, and two devices."""
    with farm(folder) as port_and_servers:
        yield port_and_servers


@pytest.fixture(scope="module")
def built():
    task = matmul_task(64)
    builder = LocalBuilder(TIMEOUT)
    builder.set_task(task, {})
    measured = MeasureInput(tvm.target.Target("llvm"), task, task.config_space.get(0))
    yield measured, builder.build([measured])[0]
    builder.close()


def runner(port):
    return autotvm.RPCRunner(KEY, "127.0.0.1", port, n_parallel=2, number=1, repeat=2, min_repeat_ms=400, timeout=TIMEOUT)


def compared(port, built):
    """A trial on each of two devices, and what the comparison that follows the first one says."""
    pool = DevicePool(runner(port))
    results = [pool.trial(*built) for _ in range(2)]
    pool._comparison.join()
    pool.close()
    assert [result.error_no for result in results] == [0, 0]
    return pool.slow


def test_a_device_that_is_slower_than_its_siblings_is_named(folder, pair, built, caplog):
    port, servers = pair
    with slowed(servers[1]), caplog.at_level(logging.WARNING):
        slow = compared(port, built)
        output = (folder / "server1.log").read_text()
    (warning,) = [entry for entry in caplog.records if "times as long as the fastest" in entry.message]
    address, ratio, key = warning.args
    assert address.rpartition(":")[2] in output
    assert ratio > 1.25
    assert slow == {address: ratio}
    assert key == KEY


def test_without_siblings_there_is_nothing_to_compare(tmp_path, built, caplog):
    with farm(tmp_path, count=1) as (port, _), caplog.at_level(logging.INFO):
        compared(port, built)
    assert not [entry for entry in caplog.records if entry.name.startswith("autotvm_opevo")]


def test_devices_that_are_not_free_in_time_are_left_out(pair, built):
    port, _ = pair
    held = rpc.connect_tracker("127.0.0.1", port).request(KEY)
    found = dict(time_on_each(runner(port), 2, *built, seconds=5))
    del held
    assert len(found) == 1


@pytest.mark.parametrize(
    ("latencies", "slow"),
    [
        ([1.0, 1.2], {}),
        ([1.0, 1.3], {"b": 1.3}),
        ([float("inf"), 1.0], {}),  # it failed, which says nothing of its speed
        ([float("inf"), float("inf")], {}),
    ],
)
def test_more_than_noise_is_slow(latencies, slow):
    assert slow_devices(dict(zip("ab", latencies))) == slow
