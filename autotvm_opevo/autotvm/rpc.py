"""Devices behind an RPC tracker: how many there are, and what to do when one dies, hangs or leaves."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tvm import rpc
from tvm.autotvm.env import AutotvmGlobalScope, reset_global_scope
from tvm.autotvm.measure import LocalRunner, MeasureErrorNo, MeasureInput, MeasureResult, RPCRunner
from tvm.autotvm.measure.measure import Runner
from tvm.autotvm.measure.measure_methods import request_remote
from tvm.contrib.popen_pool import PopenPoolExecutor

from autotvm_opevo.autotvm.processes import kill, run_with_timeout

# Seconds to wait for a tracker's answer, and for a device to come back once the last one has left or hangs.
_TRACKER_TIMEOUT, _DEVICE_TIMEOUT = 30.0, 60.0


class DevicePoolError(RuntimeError):
    """The tracker or its devices are unavailable. Results measured so far are kept."""


def is_remote(runner: Runner) -> bool:
    """Whether a runner uses a tracker of the user's; a ``LocalRunner`` starts its own."""
    return isinstance(runner, RPCRunner) and not isinstance(runner, LocalRunner)


def devices(key: str, host: str, port: int) -> int:
    """Number of devices that a tracker has for a key, busy ones included.

    Raises
    ------
    DevicePoolError
        If no tracker answers there.
    """

    def servers() -> list[dict[str, Any]]:
        session = rpc.connect_tracker(host, port)
        try:
            known: list[dict[str, Any]] = session.summary()["server_info"]
            return known
        finally:
            session.close()

    try:
        return sum(server["key"] == f"server:{key}" for server in run_with_timeout(_TRACKER_TIMEOUT, servers, "an answer"))
    except (OSError, RuntimeError) as error:
        raise DevicePoolError(
            f"no tracker answers at {host}:{port} ({error}): start one with python -m tvm.exec.rpc_tracker --port {port}"
        ) from error


class DevicePool:
    """Devices behind an ``RPCRunner``. Each trial runs on whichever is free, and a second time if its session broke."""

    def __init__(self, runner: RPCRunner) -> None:
        self._runner = runner
        self._aborted = False
        if not self._devices():
            raise DevicePoolError(
                f"the tracker at {self._address} has no device of key {runner.key!r}: start one with "
                f"python -m tvm.exec.rpc_server --tracker {self._address} --key {runner.key}"
            )
        if runner.n_parallel > (os.cpu_count() or 1):  # AutoTVM limits parallel runs to this machine's cores
            runner.executor = PopenPoolExecutor(
                max_workers=runner.n_parallel,
                timeout=runner.timeout * (runner.n_parallel + 1),
                initializer=reset_global_scope,
                initargs=(AutotvmGlobalScope.current,),
            )

    @property
    def _address(self) -> str:
        return f"{self._runner.host}:{self._runner.port}"

    def _devices(self) -> int:
        return devices(self._runner.key, self._runner.host, self._runner.port)

    def run(self, inputs: Sequence[MeasureInput], builds: Sequence[Any]) -> list[MeasureResult]:
        """Run the builds, up to the runner's ``n_parallel`` at once."""
        threads = ThreadPoolExecutor(self._runner.n_parallel)
        try:
            return list(threads.map(self.trial, inputs, builds))
        except BaseException:
            self.abort()  # or the threads would wait for what still runs
            raise
        finally:
            threads.shutdown(cancel_futures=True)

    def abort(self) -> None:
        """End what runs, for good."""
        self._aborted = True
        kill(getattr(self._runner, "executor", None))

    def trial(self, measured: MeasureInput, build: Any) -> MeasureResult:
        """Run one build."""
        result = self._runner.run([measured], [build])[0]
        if _is_session_broken(result) and not isinstance(build, MeasureResult) and not self._aborted:
            self._await_device()
            result = self._runner.run([measured], [build])[0]
            if _is_session_broken(result) and not self._aborted:
                self._check_device()
        return result

    def _check_device(self) -> None:
        """Two broken sessions in a row are the trial's fault, unless no device answers any more."""
        try:
            run_with_timeout(_DEVICE_TIMEOUT, self._open_session, "a device to answer")
        except (OSError, RuntimeError) as error:
            raise DevicePoolError(f"no device of key {self._runner.key!r} answers any more: {error}") from error

    def _open_session(self) -> None:
        request_remote(self._runner.key, self._runner.host, self._runner.port, timeout=int(_DEVICE_TIMEOUT))

    def _await_device(self) -> None:
        """Wait for a device: without any, all trials would fail, and valid configurations be logged as failures."""
        end = time.monotonic() + _DEVICE_TIMEOUT
        while not self._devices():
            if time.monotonic() > end or self._aborted:
                raise DevicePoolError(f"the last device of key {self._runner.key!r} has left the tracker at {self._address}")
            time.sleep(1.0)


def _is_session_broken(result: MeasureResult) -> bool:
    """Whether the session ended without a result: a timeout, or the server died, of itself or from the kernel."""
    if result.error_no == MeasureErrorNo.RUNTIME_DEVICE:
        # These come from a working device: the kernel failed, or took too long.
        return not any(answer in str(result.costs[0]) for answer in ("Error caught from RPC call", "RPCSessionTimeoutError"))
    return bool(result.error_no == MeasureErrorNo.RUN_TIMEOUT)
