"""Devices with the same key that are not as fast as each other: one trial runs on all of them."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tvm import rpc
from tvm.autotvm.measure import MeasureErrorNo, MeasureInput, RPCRunner
from tvm.autotvm.measure.measure_methods import BuildResult, run_through_rpc
from tvm.rpc import base

# How many times as long as the fastest device another may take: more is more than noise.
_MAX_RATIO = 1.25
# How often the trial is timed on each device, and the shortest duration of one timing, in milliseconds.
_REPEATS, _REPEAT_MS = 3, 100


def time_on_each(
    runner: RPCRunner, devices: int, measured: MeasureInput, build: BuildResult, seconds: float
) -> Iterator[tuple[str, float]]:
    """The address of each of several devices and the shortest time of a trial on it in seconds, infinite where it fails.

    A device is busy as long as its session is held, so that the next request gets another. Other trials wait meanwhile: after
    `seconds`, the devices that were not free are left out.
    """
    end = time.monotonic() + seconds
    held: list[rpc.RPCSession] = []
    while len(held) < devices and time.monotonic() < end:
        try:
            address, session = _request(runner, end - time.monotonic())
        except TimeoutError:
            return
        held.append(session)
        yield address, _time(runner, session, measured, build)


def slow_devices(latencies: Mapping[str, float]) -> dict[str, float]:
    """How many times as long as the fastest those devices take that differ by more than noise.

    >>> slow_devices({"a:9090": 1.0, "b:9090": 1.1, "c:9090": 2.0})
    {'c:9090': 2.0}
    """
    fastest = min(latencies.values(), default=math.inf)
    return {address: latency / fastest for address, latency in latencies.items() if _MAX_RATIO * fastest < latency < math.inf}


def _request(runner: RPCRunner, timeout: float) -> tuple[str, rpc.RPCSession]:
    """A session on some free device, as by `TrackerSession.request`, which does not tell the address and has no limit."""
    tracker = rpc.connect_tracker(runner.host, runner.port)
    tracker._sock.settimeout(timeout)
    base.sendjson(tracker._sock, [base.TrackerCode.REQUEST, runner.key, "", runner.priority])
    code, answer = base.recvjson(tracker._sock)
    if code != base.TrackerCode.SUCCESS:
        raise RuntimeError(f"the tracker answered {answer!r}")
    host, port, key = answer
    return f"{host}:{port}", rpc.connect(host, port, key, session_timeout=math.ceil(timeout))


def _time(runner: RPCRunner, session: rpc.RPCSession, measured: MeasureInput, build: BuildResult) -> float:
    @contextmanager
    def loader(_: Any, build: BuildResult) -> Iterator[tuple[rpc.RPCSession, Any]]:
        session.upload(build.filename)
        yield session, session.load_module(os.path.basename(build.filename))

    effort = 1, _REPEATS, _REPEAT_MS, 0
    result = run_through_rpc(measured, build, *effort, {}, runner.ref_input, runner.enable_cpu_cache_flush, loader)
    return min(result.costs) if result.error_no == MeasureErrorNo.NO_ERROR else math.inf
