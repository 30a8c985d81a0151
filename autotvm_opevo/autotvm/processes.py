"""AutoTVM's child processes: started out of reach of Ctrl-C, ended with the run, and never waited for without a limit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

from tvm.contrib.popen_pool import PopenPoolExecutor

from autotvm_opevo.autotvm import watchdog

T = TypeVar("T")

# Seconds for worker processes to start: each imports TVM.
START = 120.0


def run_with_timeout(seconds: float, function: Callable[[], T], what: str) -> T:
    """What a function returns, if it does so in time; else `TimeoutError`, and the function is left to itself."""
    outcome: list[T] = []
    failure: list[BaseException] = []

    def call() -> None:
        try:
            outcome.append(function())
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(seconds)
    if failure:
        raise failure[0]
    if not outcome:
        raise TimeoutError(f"waited {seconds:g} seconds for {what}")
    return outcome[0]


class Watchdog:
    """Ends this run's processes when this one is killed."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        mark = os.environ[watchdog.VARIABLE] = uuid.uuid4().hex
        self._process = subprocess.Popen([sys.executable, watchdog.__file__, mark], stdin=subprocess.PIPE, text=True)

    def stop(self) -> None:
        os.environ.pop(watchdog.VARIABLE, None)
        if self._process is not None:
            self._process.communicate("done\n", timeout=10)
            self._process = None


@contextmanager
def no_interrupts_in_children() -> Iterator[None]:
    """Threads and processes made in here, and all that these make, never see Ctrl-C; this thread sees it afterwards."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def start(executor: PopenPoolExecutor | None, parallel: int) -> None:
    """Start the workers of AutoTVM's pool, a thread and a process each; it may reach for one more than run at once."""
    if executor is not None:
        for started in [executor.submit(int) for _ in range(min(parallel + 1, executor._threadpool._max_workers))]:
            started.result(START)


def stop(executor: PopenPoolExecutor | None) -> None:
    """End the processes of AutoTVM's pool, which starts new ones when it is used again."""
    kill(executor)  # first, since a worker's own end waits until what it runs is done
    for worker in list(getattr(executor, "_worker_map", {}).values()):
        with suppress(AttributeError):  # the thread that waited for it ends it, too, and may be the first
            worker.kill()


def kill(executor: PopenPoolExecutor | None) -> None:
    """End processes that others are waiting for: those waiting see the end of the pipe."""
    for worker in list(getattr(executor, "_worker_map", {}).values()):
        process = worker._proc
        if process is not None:
            process.kill()
