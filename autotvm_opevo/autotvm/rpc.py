"""Devices behind a tracker: how many there are, and what to do when one dies, hangs or leaves."""

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

# Seconds: for a tracker to answer, and for a farm that has lost its last device to get one back.
_ANSWER, _PATIENCE = 30.0, 60.0


class DevicePoolError(RuntimeError):
    """The tracker or its devices are not there; nothing measured so far is lost."""


def is_remote(runner: Runner) -> bool:
    """Whether a runner's devices are behind a tracker; a ``LocalRunner``, whose tracker is its own, is none."""
    return isinstance(runner, RPCRunner) and not isinstance(runner, LocalRunner)


def devices(key: str, host: str, port: int) -> int:
    """How many devices of a key a tracker knows, busy ones included.

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
        return sum(server["key"] == f"server:{key}" for server in run_with_timeout(_ANSWER, servers, "an answer"))
    except (OSError, RuntimeError) as error:
        raise DevicePoolError(
            f"no tracker answers at {host}:{port} ({error}): start one with python -m tvm.exec.rpc_tracker --port {port}"
        ) from error


class DevicePool:
    """The devices behind an ``RPCRunner``: every trial on whichever is free, once more where its session broke."""

    def __init__(self, runner: RPCRunner) -> None:
        self._runner = runner
        self._over = False
        if not self._devices():
            raise DevicePoolError(
                f"the tracker at {self._address} has no device of key {runner.key!r}: start one with "
                f"python -m tvm.exec.rpc_server --tracker {self._address} --key {runner.key}"
            )
        if runner.n_parallel > (os.cpu_count() or 1):  # AutoTVM runs no more at once than this machine has cores
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
        """Run what was built, as many at once as the runner may."""
        threads = ThreadPoolExecutor(self._runner.n_parallel)
        try:
            return list(threads.map(self._trial, inputs, builds))
        except BaseException:
            self._over = True
            kill(getattr(self._runner, "executor", None))  # nobody waits for what runs
            raise
        finally:
            threads.shutdown(cancel_futures=True)

    def _trial(self, measured: MeasureInput, build: Any) -> MeasureResult:
        result = self._runner.run([measured], [build])[0]
        if _broke(result) and not isinstance(build, MeasureResult) and not self._over:
            self._await_a_device()
            result = self._runner.run([measured], [build])[0]
            if _broke(result) and not self._over:
                self._try_a_session()
        return result

    def _try_a_session(self) -> None:
        """A trial that broke two sessions may have itself to blame, or a farm whose last device hangs."""
        try:
            run_with_timeout(_PATIENCE, self._session, "a device that answers")
        except (OSError, RuntimeError) as error:
            raise DevicePoolError(f"no device of key {self._runner.key!r} answers any more: {error}") from error

    def _session(self) -> None:
        request_remote(self._runner.key, self._runner.host, self._runner.port, timeout=int(_PATIENCE))

    def _await_a_device(self) -> None:
        """A farm without any would fail every trial, and the log would say so of configurations that are good."""
        end = time.monotonic() + _PATIENCE
        while not self._devices():
            if time.monotonic() > end:
                raise DevicePoolError(f"the last device of key {self._runner.key!r} has left the tracker at {self._address}")
            time.sleep(1.0)


def _broke(result: MeasureResult) -> bool:
    """Whether the session ended without an answer: time ran out, or the server, or the kernel took the server with it."""
    if result.error_no == MeasureErrorNo.RUNTIME_DEVICE:
        # These are answers of the device: an error of the kernel, and that it took too long.
        return not any(answer in str(result.costs[0]) for answer in ("Error caught from RPC call", "RPCSessionTimeoutError"))
    return bool(result.error_no == MeasureErrorNo.RUN_TIMEOUT)
