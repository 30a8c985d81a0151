"""Measuring candidates of any task: what runs next is built while something runs. Imports no TVM."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import count
from math import inf
from types import TracebackType
from typing import Any, Protocol

from autotvm_opevo.tuning.workers import WorkerPool

# Seconds between attempts to end what still runs.
_POLL_INTERVAL = 0.02


class Build(Protocol):
    """A candidate that is being built."""

    @property
    def future(self) -> Future[Any]:
        """Of what is built."""


# Runs what was built, or says why there is nothing to run. What needs the device for itself is within the context manager.
Run = Callable[[Any, AbstractContextManager[None]], Any]


class Pipeline:
    """Trials that are built, wait for a device, or run; what is built first runs first.

    Parameters
    ----------
    run : callable
        Takes a build that is finished, and a context manager for the time on the device; returns the trial.
    devices : int
        Number of trials that run at the same time.
    builders : WorkerPool
        Paused while a trial runs on this machine's CPU.
    """

    def __init__(self, run: Run, devices: int, builders: WorkerPool) -> None:
        self._run_built, self._builders = run, builders
        self._threads = ThreadPoolExecutor(devices)
        self._building: set[Future[Any]] = set()
        self._trials: set[Future[Any]] = set()
        self._closed = False
        self._device = threading.Lock()  # held while a trial runs on this machine's CPU
        self._free = threading.Event()  # nobody waits for this CPU but trials
        self._free.set()
        self._ran: list[float] = []  # seconds of each trial on its device

    @property
    def building(self) -> int:
        """Number of trials that are not built yet."""
        return len(self._building)

    @property
    def seconds_running(self) -> float:
        """Seconds during which trials ran, over all devices."""
        return sum(self._ran)

    def submit(self, build: Build, on_this_cpu: bool) -> Future[Any]:
        """Run what is being built, once it is."""
        trial: Future[Any] = Future()
        self._trials.add(trial)
        trial.add_done_callback(self._trials.discard)
        self._building.add(build.future)

        def built(future: Future[Any]) -> None:
            self._building.discard(future)
            if not self._closed:
                self._threads.submit(self._run, build, trial, on_this_cpu)

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

    def close(self, interrupt: Callable[[], object]) -> None:
        """End all trials; `interrupt` makes those that run fail. The builders are the caller's to close."""
        self._closed = True
        self._free.set()
        self._threads.shutdown(wait=False, cancel_futures=True)
        for trial in list(self._trials):
            trial.cancel()
        while any(trial.running() for trial in list(self._trials)):
            interrupt()
            time.sleep(_POLL_INTERVAL)

    def _run(self, build: Build, trial: Future[Any], on_this_cpu: bool) -> None:
        if not trial.set_running_or_notify_cancel():
            return
        try:
            trial.set_result(self._run_built(build, self._alone() if on_this_cpu else self._timed()))
        except BaseException as error:
            trial.set_exception(error)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Let nothing else of this pipeline use this machine's CPU."""
        self._free.wait()
        with self._device:
            if self._closed:
                raise ChildProcessError("closed before it could run")
            self._builders.pause()
            try:
                with self._timed():
                    yield
            finally:
                self._builders.resume()

    @contextmanager
    def _timed(self) -> Iterator[None]:
        start = time.monotonic()
        try:
            yield
        finally:
            self._ran.append(time.monotonic() - start)  # by several threads


class Measurer(ABC):
    """Measure candidates of any task; a context manager, which ends all child processes on leaving.

    With this package's builder, what runs next is built while something runs; others measure one batch after the other.

    Parameters
    ----------
    batch : int
        Number of candidates that are proposed at a time.
    builds, devices : int
        Number of builds, and of trials, at the same time.

    Attributes
    ----------
    batch : int
        As given.
    pipeline : Pipeline or None
        Made on entering, by those that build ahead.
    """

    def __init__(self, batch: int, builds: int, devices: int) -> None:
        self.batch, self._builds, self._devices = batch, builds, devices
        self.pipeline: Pipeline | None = None
        self._waiting: dict[Future[Any], int] = {}  # for results, in the pipeline; to the number of the batch
        self._queue: deque[tuple[int, Any, Sequence[Any]]] = deque()  # without one
        self._numbers = count()

    def __enter__(self) -> Any:
        return self

    @abstractmethod
    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None) -> None:
        """End all child processes."""

    @property
    def hungry(self) -> bool:
        """Whether builders or devices would be idle without another batch."""
        if self.pipeline is None:
            return not self._queue
        return self.pipeline.building <= self._builds and len(self._waiting) <= 2 * max(self._builds, self._devices)

    @property
    def busy(self) -> bool:
        """Whether there is anything to wait for."""
        return bool(self._queue or self._waiting)

    @property
    def seconds_running(self) -> float:
        """Seconds during which trials of the pipeline ran, per device."""
        return self.pipeline.seconds_running / self._devices if self.pipeline is not None else 0.0

    def submit(self, task: Any, candidates: Sequence[Any]) -> int:
        """Start to measure a batch of candidates of a task, both of the adapter's TVM; returns its number."""
        number = next(self._numbers)
        if self.pipeline is None:
            self._queue.append((number, task, candidates))
        else:
            for build, on_this_cpu in self._start(task, candidates):
                self._waiting[self.pipeline.submit(build, on_this_cpu)] = number
        return number

    def wait(self, seconds: float = inf) -> Iterator[tuple[int, Any]]:
        """Wait until a trial is measured, or for `seconds`; iterate over all that are, each with the number of its batch."""
        if self._queue:
            number, task, candidates = self._queue.popleft()
            yield from ((number, trial) for trial in self._measure(task, candidates))
            return
        with self._limit(max(1, len(self._waiting))):
            done, _ = wait(self._waiting, timeout=None if seconds == inf else max(0.0, seconds), return_when=FIRST_COMPLETED)
        failed = [trial for trial in done if trial.exception() is not None]
        if done and len(failed) == len(done):
            failed[0].result()  # raises; before that, what else is measured has been returned
        yield from self.finished()

    def finished(self) -> Iterator[tuple[int, Any]]:
        """Iterate over what has been measured and not been waited for."""
        for trial in list(self._waiting):
            if trial.done() and trial.exception() is None:
                yield self._waiting.pop(trial), trial.result()

    def cancel(self) -> None:
        """Drop the trials that do not run yet."""
        self._queue.clear()
        for trial in list(self._waiting):
            if trial.cancel():
                del self._waiting[trial]
        if self.pipeline is not None:
            self._end_builds()  # what is still built would disturb what is timed

    def close_pipeline(self, interrupt: Callable[[], object]) -> None:
        """End all trials; `interrupt` makes those that run fail."""
        self._queue.clear()
        if self.pipeline is not None:
            self.pipeline.close(interrupt)
            self.pipeline = None
            self._waiting.clear()

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Compute without disturbing a trial on this machine's CPU."""
        with self.pipeline.quiet() if self.pipeline is not None else nullcontext():
            yield

    @abstractmethod
    def _start(self, task: Any, candidates: Sequence[Any]) -> Iterator[tuple[Build, bool]]:
        """Start to build candidates; each with whether its trial runs on this machine's CPU."""

    @abstractmethod
    def _measure(self, task: Any, candidates: Sequence[Any]) -> Sequence[Any]:
        """Measure a batch without a pipeline; returns its trials, in the same order."""

    @abstractmethod
    def _end_builds(self) -> None:
        """End what is being built."""

    def _limit(self, trials: int) -> AbstractContextManager[None]:
        """Within, so many trials are waited for; one that hangs must not be for ever."""
        return nullcontext()
