"""AutoTVM's child processes: shielded from Ctrl-C, and ended with the run."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from tvm.contrib.popen_pool import PopenPoolExecutor

from autotvm_opevo.autotvm.watchdog import SCRIPT, VARIABLE

# What this package's worker processes need.
WORKER_MODULE = "autotvm_opevo.autotvm"
# Seconds for AutoTVM's worker processes to start; each imports TVM.
POPEN_TIMEOUT = 120.0


class Watchdog:
    """Kills the children of this process if it is killed itself; see `autotvm_opevo.autotvm.watchdog`."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        mark = os.environ[VARIABLE] = uuid.uuid4().hex
        self._process = subprocess.Popen([sys.executable, SCRIPT, mark], stdin=subprocess.PIPE, text=True)

    def stop(self) -> None:
        os.environ.pop(VARIABLE, None)
        if self._process is not None:
            self._process.communicate("done\n", timeout=10)
            self._process = None


def start(executor: PopenPoolExecutor | None, parallel: int) -> None:
    """Start the workers of AutoTVM's pool, each a thread and a process. The pool may use one more than run at once."""
    if executor is not None:
        for future in [executor.submit(int) for _ in range(min(parallel + 1, executor._threadpool._max_workers))]:
            future.result(POPEN_TIMEOUT)


def stop(executor: PopenPoolExecutor | None) -> None:
    """Stop the processes of AutoTVM's pool, which starts new ones when it is used again."""
    kill(executor)  # first: a worker would finish its job before it exits
    for worker in list(getattr(executor, "_worker_map", {}).values()):
        with suppress(AttributeError):  # its own thread also kills it, and may be faster
            worker.kill()


def kill(executor: PopenPoolExecutor | None) -> None:
    """Kill the processes of AutoTVM's pool; threads that wait for their results see the end of the pipe."""
    for worker in list(getattr(executor, "_worker_map", {}).values()):
        process = worker._proc
        if process is not None:
            process.kill()


@contextmanager
def killed_after(seconds: float, executors: Sequence[PopenPoolExecutor | None]) -> Iterator[None]:
    """Kill the processes of pools that hang: after so many seconds in this context, and again each time they have passed."""
    done = threading.Event()

    def watch() -> None:
        while not done.wait(seconds):
            for executor in executors:
                kill(executor)

    threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        done.set()
