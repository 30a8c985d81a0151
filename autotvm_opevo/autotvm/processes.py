"""The child processes of AutoTVM's pools, which may hang."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tvm.contrib.popen_pool import PopenPoolExecutor

# Seconds for AutoTVM's processes to start; each imports TVM.
START_TIMEOUT = 120.0


def kill(executor: PopenPoolExecutor | None) -> None:
    """Kill the processes of AutoTVM's pool; threads that wait for their results see the end of the
    pipe.
    """
    for worker in list(getattr(executor, "_worker_map", {}).values()):
        with suppress(AttributeError):  # its own thread ends it, too, and may be faster
            worker._proc.kill()


def stop(executor: PopenPoolExecutor | None) -> None:
    """Stop the processes of AutoTVM's pool, which starts new ones when it is used again."""
    kill(executor)  # first: a worker would finish its job before it exits
    for worker in list(getattr(executor, "_worker_map", {}).values()):
        with suppress(AttributeError):
            worker.kill()


@contextmanager
def killed_after(seconds: float, *executors: PopenPoolExecutor | None) -> Iterator[None]:
    """Kill the processes of pools that hang: after so many seconds in this context, and again each
    time they have passed.
    """
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
