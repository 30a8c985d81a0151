"""Devices behind an RPC tracker: how many there are, and what to do when one dies, hangs or
leaves, or AutoTVM's processes do that talk to it.
"""

from __future__ import annotations

import gc
import logging
import os
import shutil
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import count
from typing import Any

from tvm import rpc
from tvm.autotvm.env import AutotvmGlobalScope, reset_global_scope
from tvm.autotvm.measure import MeasureErrorNo, MeasureInput, MeasureResult, RPCRunner
from tvm.autotvm.measure.measure_methods import default_module_loader, request_remote
from tvm.contrib.popen_pool import PopenPoolExecutor

from autotvm_opevo._utils.text import last_line
from autotvm_opevo._utils.timeouts import say_if_long
from autotvm_opevo.tuning.programs import REQUEST_TIMEOUT, device_addresses
from autotvm_opevo.tuning.workers import kill_tvm_pool

logger = logging.getLogger(__name__)

# Seconds to wait for a device to come back once the last one has left, and for AutoTVM's processes
# to start, each of which imports TVM.
_DEVICE_TIMEOUT = 60.0
START_TIMEOUT = 120.0
# Seconds between looks at what may have changed.
_POLL_INTERVAL = 1.0

# AutoTVM's loader, which in addition frees what TVM leaves if it gets a device that has just died
# and requests another: the error is in a reference cycle with the frames that hold the second
# session, so that its device would be busy until the session times out. The cycle is young, which
# makes the collection quick. A lambda is pickled with its code: workers import only TVM.
_LOADER = default_module_loader(lambda *_: gc.collect(1))


class DevicePoolError(RuntimeError):
    """The tracker or its devices are unavailable. Results measured so far are kept."""


@contextmanager
def killed_after(seconds: float, *executors: PopenPoolExecutor | None) -> Iterator[None]:
    """Kill the processes of pools that hang: after so many seconds in this context, and again each
    time they have passed.
    """
    done = threading.Event()

    def watch() -> None:
        while not done.wait(seconds):
            for executor in executors:
                kill_tvm_pool(executor)

    threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        done.set()


def tracker_address(key: str | None, host: str | None, port: int | None) -> tuple[str, str, int]:
    """The key of devices, and their tracker's host and port, which are those of the environment if
    they are not given; a `ValueError` if one is not known.
    """
    host = host or os.environ.get("TVM_TRACKER_HOST")
    port = port or int(os.environ.get("TVM_TRACKER_PORT") or 0) or None
    if not (key and host and port):
        raise ValueError(
            "devices need a key and their tracker's host and port, or TVM_TRACKER_HOST and "
            f"TVM_TRACKER_PORT; {key!r}, {host!r} and {port!r} given"
        )
    return key, host, port


def addresses(key: str, host: str, port: int) -> list[str]:
    """Where the devices of a key are, busy ones included, as far as a tracker knows; all behind
    one RPC proxy count as one. A `DevicePoolError` if no tracker answers there.
    """
    try:
        return device_addresses(key, lambda: rpc.connect_tracker(host, port))
    except (OSError, RuntimeError) as error:
        raise DevicePoolError(
            f"no tracker answers at {host}:{port} ({error}): start one with python -m "
            f"tvm.exec.rpc_tracker --port {port}"
        ) from error


class DevicePool:
    """Devices behind an ``RPCRunner``. Each trial runs on whichever is free, and a second time if
    its session broke.

    A runner without a tracker's address gets that of the environment, as by AutoTVM; a `ValueError`
    if there is none. Raises `DevicePoolError` if no tracker answers there, or it has no device of
    the runner's key.

    Attributes
    ----------
    size : int
        Number of trials at the same time: the runner's ``n_parallel``, but no more than there are
        devices where that is AutoTVM's default, the number of this machine's cores.
    """

    def __init__(self, runner: RPCRunner) -> None:
        self._runner = runner
        _, runner.host, runner.port = tracker_address(runner.key, runner.host, runner.port)
        self._tracker = f"{runner.host}:{runner.port}"
        self._aborted = False
        self._refreshing = threading.Lock()
        self._numbers = count()
        self._known: set[str] = set()
        if runner.module_loader is None:
            runner.module_loader = _LOADER
        self.refresh()
        if not self._known:
            raise DevicePoolError(
                f"the tracker at {self._tracker} has no device of key {runner.key!r}: start one "
                f"with python -m tvm.exec.rpc_server --tracker {self._tracker} --key {runner.key}"
            )
        self.size, cores = runner.n_parallel, os.cpu_count() or 1
        if self.size == cores and not any("proxy" in device for device in self._known):
            self.size = min(cores, len(self._known))
        # AutoTVM limits parallel runs to this machine's cores
        if self.size > cores:
            runner.executor = PopenPoolExecutor(
                max_workers=runner.n_parallel,
                timeout=runner.timeout * (runner.n_parallel + 1),
                initializer=reset_global_scope,
                initargs=(AutotvmGlobalScope.current,),
            )

    def refresh(self) -> None:
        """Ask the tracker for the devices; a warning names those that have left since the last
        time.
        """
        with self._refreshing:
            present = set(addresses(self._runner.key, self._runner.host, self._runner.port))
            for device in sorted(self._known - present):
                logger.warning("the device at %s has left the tracker at %s", device, self._tracker)
            self._known = present

    def run(self, inputs: Sequence[MeasureInput], builds: Sequence[Any]) -> list[MeasureResult]:
        """Run the builds, up to `size` at once."""
        threads = ThreadPoolExecutor(self.size)
        try:
            return list(threads.map(self.run_one, inputs, builds))
        except BaseException:
            self.abort()  # or the threads would wait for what still runs
            raise
        finally:
            threads.shutdown(cancel_futures=True)

    def abort(self) -> None:
        """End what runs, for good."""
        self._aborted = True
        kill_tvm_pool(getattr(self._runner, "executor", None))

    def run_one(self, measured: MeasureInput, build: Any) -> MeasureResult:
        """Run one build, and again if the session broke."""
        if isinstance(build, MeasureResult):
            return build
        result = self._run(measured, build)
        if _is_session_broken(result) and not self._aborted:
            self._await_device()
            # another user may have the device, so that the trial has not run
            why = self._why_silent()
            result = self._run(measured, build)
            # twice in a row is the trial's fault, unless no device answers any more
            if _is_session_broken(result) and not self._aborted:
                why = why or self._why_silent()
                if why:
                    raise DevicePoolError(
                        f"no device of key {self._runner.key!r} answers any more: {why}"
                    )
        return result

    def _run(self, measured: MeasureInput, build: Any) -> MeasureResult:
        """Run one build once. A server on this machine deletes the file that was built, which is
        needed again: it gets a copy.
        """
        stem, extension = os.path.splitext(build.filename)
        copy = f"{stem}-{next(self._numbers)}{extension}"
        shutil.copyfile(build.filename, copy)
        # longer than its own, which may fail
        limit = START_TIMEOUT + 2 * (self._runner.n_parallel + 1) * self._runner.timeout
        try:
            with killed_after(limit, getattr(self._runner, "executor", None)):
                result: MeasureResult = self._runner.run(
                    [measured], [build._replace(filename=copy)]
                )[0]
            return result
        finally:
            with suppress(FileNotFoundError):
                os.unlink(copy)

    def _why_silent(self) -> str:
        """Wait until a device answers, for minutes, since others may use them; returns why none
        does, or nothing.
        """
        key, host, port = self._runner.key, self._runner.host, self._runner.port
        errors: list[str] = []

        def ask() -> None:
            try:
                request_remote(key, host, port, timeout=int(_DEVICE_TIMEOUT))
            except Exception as error:  # of sockets and of TVM's
                errors.append(f"{type(error).__name__}: {last_line(str(error))}")

        # a request cannot be aborted: its thread is abandoned
        asking = threading.Thread(target=ask, daemon=True)
        end = time.monotonic() + REQUEST_TIMEOUT
        with say_if_long(f"waiting for a free device of key {key!r}"):
            asking.start()
            while asking.is_alive() and not self._aborted and time.monotonic() < end:
                asking.join(_POLL_INTERVAL)
        if asking.is_alive():
            return f"busy or hanging for {REQUEST_TIMEOUT} s"
        return errors[0] if errors else ""

    def _await_device(self) -> None:
        """Wait for a device: without any, all trials would fail, and valid configurations be logged
        as failures.
        """
        end = time.monotonic() + _DEVICE_TIMEOUT
        self.refresh()
        while not self._known:
            if time.monotonic() > end or self._aborted:
                raise DevicePoolError(
                    f"the last device of key {self._runner.key!r} has left the tracker at "
                    f"{self._tracker}"
                )
            time.sleep(_POLL_INTERVAL)
            self.refresh()


def _is_session_broken(result: MeasureResult) -> bool:
    """Whether the session ended without a result: a timeout, or the server died, of itself or from
    the kernel.
    """
    if result.error_no == MeasureErrorNo.RUNTIME_DEVICE:
        # These come from a working device: the kernel failed, or took too long.
        return not any(
            answer in str(result.costs[0])
            for answer in ("Error caught from RPC call", "RPCSessionTimeoutError")
        )
    return bool(result.error_no == MeasureErrorNo.RUN_TIMEOUT)
