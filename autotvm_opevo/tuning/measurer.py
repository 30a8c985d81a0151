"""Measuring candidates of any task: what runs next is built while something runs, and what was
built for the best is kept, to be timed again when tuning ends. Imports no TVM.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from itertools import count
from math import inf
from typing import Any, NamedTuple

from autotvm_opevo.search.base import FIRST_BATCH, batch_limit
from autotvm_opevo.tuning.task_scheduler import TaskProgress
from autotvm_opevo.tuning.workers import WorkerPool

# Seconds between attempts to end what still runs, and between looks whether the device is wanted.
_POLL_INTERVAL, _WANTED_INTERVAL = 0.02, 0.001
# Number of finalists of a task, and how much slower than the best one may have been, since no noise
# is as large.
FINALISTS = 5
MAX_RATIO = 1.5


class Measurer(ABC):
    """Measure candidates of any task; a context manager, which ends all child processes on leaving.

    Trials are built, wait for a device, and run; what is built first runs first. A builder or
    runner that takes whole batches measures one while it is submitted.

    A `batch` of candidates is proposed at a time; `builds` and `devices` are the numbers of builds
    and of trials at the same time. While a trial runs on this machine's CPU, `builders` pause.
    """

    def __init__(
        self, batch: int, builds: int, devices: int, builders: WorkerPool | None = None
    ) -> None:
        self.batch, self._builds, self._devices, self._builders = batch, builds, devices, builders
        self._threads = ThreadPoolExecutor(devices)
        self._building: set[Future[Any]] = set()
        self._trials: set[Future[Any]] = set()
        self._closed = False
        self._device = threading.Lock()  # held while a trial runs on this machine's CPU
        self._wanted = False  # by others than trials, which then wait
        self._ran: list[float] = []  # seconds of each trial on its device
        self.finalists = Finalists()  # which `retime` times again

    def __enter__(self) -> Any:
        return self

    @abstractmethod
    def __exit__(self, *_: object) -> None:
        """End all child processes."""

    @abstractmethod
    def submit(self, task: Any, candidates: Sequence[Any]) -> Sequence[Future[Any]]:
        """Measure candidates of a task; returns the future of each one's trial."""

    @abstractmethod
    def retime(self, finalist: Finalist) -> float:
        """Seconds of one run of a finalist, timed for a moment; infinite if it fails now."""

    @abstractmethod
    def restart(self) -> None:
        """Time what follows in a new process if that matters, since its memory lies elsewhere."""

    @property
    def building(self) -> int:
        """Number of trials that are not built yet."""
        return len(self._building)

    @property
    def has_capacity(self) -> bool:
        """Whether builders or devices would be idle without another batch."""
        most = 2 * max(self._builds, self._devices)
        return self.building <= self._builds and len(self._trials) <= most

    def is_ahead(self, task: TaskProgress) -> bool:
        """Whether a task is to wait for results: while as many as `batch_limit`, or two for each
        device if that is more, are unfinished. There may be builders for more, whose candidates
        would be next to random. After the first results it does not wait while a device has nothing
        to run.
        """
        enough = task.pending >= max(batch_limit(task.trials), 2 * self._devices)
        devices_run = len(self._trials) - self.building >= self._devices
        return enough and (devices_run or task.trials < FIRST_BATCH)

    @property
    def seconds_running(self) -> float:
        """Seconds during which trials ran, per device; 0 if unknown."""
        return sum(self._ran) / self._devices

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Compute without disturbing a trial on this machine's CPU: none runs meanwhile."""
        self._wanted = True
        try:
            with self._device:
                self._wanted = False
                yield
        finally:  # also after Ctrl-C, or no trial would ever run again
            self._wanted = False

    def cancel(self) -> None:
        """Drop the trials that do not run yet, and builds, which would disturb what is timed."""
        for trial in list(self._trials):
            trial.cancel()
        if self._builders is not None:
            self._builders.close()

    def _run_when_built(self, build: Future[Any], run: Callable[[], Any]) -> Future[Any]:
        """The future of what `run` returns, which begins once its build is done."""
        trial: Future[Any] = Future()
        self._trials.add(trial)
        trial.add_done_callback(self._trials.discard)
        self._building.add(build)

        def built(_: Future[Any]) -> None:
            self._building.discard(build)
            if not self._closed:
                try:
                    self._threads.submit(self._trial, run, trial)
                except RuntimeError:
                    if not self._closed:  # just now
                        raise

        build.add_done_callback(built)
        return trial

    def _close(self, interrupt: Callable[[], object]) -> None:
        """End all trials, and forget the finalists; `interrupt` makes those that run fail."""
        self._closed = True
        self._threads.shutdown(wait=False, cancel_futures=True)
        for trial in list(self._trials):
            trial.cancel()
        while any(trial.running() for trial in list(self._trials)):
            interrupt()
            time.sleep(_POLL_INTERVAL)
        self.finalists.clear()

    def _trial(self, run: Callable[[], Any], trial: Future[Any]) -> None:
        if not trial.set_running_or_notify_cancel():
            return
        try:
            trial.set_result(run())
        except BaseException as error:
            trial.set_exception(error)

    @contextmanager
    def _on_device(self, is_this_cpu: bool) -> Iterator[None]:
        """Time a trial on its device; nothing else of this measurer uses it, if it is this CPU."""
        with ExitStack() as stack:
            if is_this_cpu:
                assert self._builders is not None
                self._acquire_device()
                stack.callback(self._device.release)
                self._builders.pause()
                stack.callback(self._builders.resume)
            start = time.monotonic()
            try:
                yield
            finally:
                self._ran.append(time.monotonic() - start)  # by several threads

    def _acquire_device(self) -> None:
        """Wait for this machine's CPU, but not beyond the end: Ctrl-C may leave it locked."""
        while not self._closed:
            if self._wanted:
                time.sleep(_WANTED_INTERVAL)
            elif self._device.acquire(timeout=_POLL_INTERVAL):
                return
        raise ChildProcessError("closed before it could run")


def measured(trial: Any) -> Future[Any]:
    """The future of a trial that is measured already."""
    future: Future[Any] = Future()
    future.set_result(trial)
    return future


class Finalist(NamedTuple):
    """One of the best trials of a task: its latency, the trial, and what was built for it, with a
    copy of its file, since the builder deletes its own.
    """

    seconds: float
    trial: Any
    built: Any
    file: str


class Finalists:
    """The finalists of all tasks; trials can be added by any thread."""

    def __init__(self) -> None:
        self._by_task: dict[Any, list[Finalist]] = defaultdict(list)  # the fastest first, by task
        self._folder: tempfile.TemporaryDirectory[str] | None = None  # of what was built
        self._numbers = count()
        self._lock = threading.Lock()

    def of(self, task: Any) -> list[Finalist]:
        """The best trials of a task, by its key, the fastest first, within reach of noise."""
        best = self._by_task[task]
        return [finalist for finalist in best if finalist.seconds <= MAX_RATIO * best[0].seconds]

    def add(self, task: Any, trial: Any, built: Any, file: str, seconds: float) -> None:
        """Keep a copy of what was built for a trial, until `clear`, if it is one of the best."""
        with self._lock:
            best = self._by_task[task]
            if seconds == inf or (len(best) == FINALISTS and seconds >= best[-1].seconds):
                return
            try:
                self._folder = self._folder or tempfile.TemporaryDirectory()
                copy = f"{self._folder.name}/{next(self._numbers)}{os.path.splitext(file)[1]}"
                shutil.copyfile(file, copy)
            except OSError:  # a full disk: it can still be the best, but not be confirmed
                return
            best.append(Finalist(seconds, trial, built, copy))
            best.sort(key=lambda finalist: finalist.seconds)
            for dropped in best[FINALISTS:]:
                with suppress(OSError):
                    os.unlink(dropped.file)
            del best[FINALISTS:]

    def clear(self) -> None:
        """Forget all."""
        self._by_task.clear()
        folder, self._folder = self._folder, None
        if folder is not None:
            shutil.rmtree(folder.name, ignore_errors=True)  # as far as possible
            with suppress(OSError):
                folder.cleanup()
