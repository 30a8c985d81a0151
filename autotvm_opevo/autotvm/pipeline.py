"""Build what runs next while something runs."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress

from tvm.autotvm.measure import MeasureInput, MeasureResult
from tvm.autotvm.measure.measure_methods import BuildResult

from autotvm_opevo.autotvm.builder import Build, LocalBuilder

# Seconds between attempts to end what still runs.
_POLL_INTERVAL = 0.02
# Targets whose trials need the processor that builds use.
_CPU_TARGETS = ("llvm", "c")


class Pipeline:
    """Trials that are built, wait for a device, or run; what is built first runs first.

    Parameters
    ----------
    builder : LocalBuilder
    run : callable
        Runs what was built.
    devices : int
        Number of trials that run at the same time.
    local : bool
        Whether they run on this machine. Builds are paused while a trial for its CPU runs.
    """

    def __init__(
        self, builder: LocalBuilder, run: Callable[[MeasureInput, BuildResult], MeasureResult], devices: int, local: bool
    ) -> None:
        self._builder, self._run_built, self._local = builder, run, local
        self._threads = ThreadPoolExecutor(devices)
        self._building: set[Future[BuildResult]] = set()
        self._trials: set[Future[MeasureResult]] = set()
        self._closed = False
        self._device = threading.Lock()  # held while a trial runs on this machine's CPU
        self._free = threading.Event()  # nobody waits for this CPU but trials
        self._free.set()

    @property
    def building(self) -> int:
        """Number of trials that are not built yet."""
        return len(self._building)

    def submit(self, measured: MeasureInput) -> Future[MeasureResult]:
        """Start a trial."""
        trial: Future[MeasureResult] = Future()
        self._trials.add(trial)
        trial.add_done_callback(self._trials.discard)
        build = self._builder.start(measured)
        self._building.add(build.future)

        def built(future: Future[BuildResult]) -> None:
            self._building.discard(future)
            if not self._closed:
                self._threads.submit(self._run, build, trial)

        build.future.add_done_callback(built)
        return trial

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Let no trial run on this machine's CPU meanwhile."""
        self._free.clear()
        try:
            with self._device:
                self._free.set()
                yield
        finally:  # also after Ctrl-C, or no trial would ever run again
            self._free.set()

    def close(self, interrupt: Callable[[], None]) -> None:
        """End all trials; `interrupt` makes those that run fail."""
        self._closed = True
        self._free.set()
        self._threads.shutdown(wait=False, cancel_futures=True)
        for trial in list(self._trials):
            trial.cancel()
        while any(trial.running() for trial in list(self._trials)):
            interrupt()
            time.sleep(_POLL_INTERVAL)
        self._builder.close()

    def _run(self, build: Build, trial: Future[MeasureResult]) -> None:
        if not trial.set_running_or_notify_cancel():
            return
        try:
            result = self._builder.finish(build)
            if isinstance(result, BuildResult):
                trial.set_result(self._run_alone(build.measured, result))
                with suppress(OSError):
                    os.unlink(result.filename)
            else:
                trial.set_result(result)
        except BaseException as error:
            trial.set_exception(error)

    def _run_alone(self, measured: MeasureInput, built: BuildResult) -> MeasureResult:
        if not self._local or measured.target.kind.name not in _CPU_TARGETS:
            return self._run_built(measured, built)
        self._free.wait()
        with self._device:
            if self._closed:
                raise ChildProcessError("closed before it could run")
            self._builder.executor.pause()
            try:
                return self._run_built(measured, built)
            finally:
                self._builder.executor.resume()
