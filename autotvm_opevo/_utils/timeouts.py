"""Calls that may never return, and those of TVM's compiler. Imports no TVM."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from tqdm import tqdm

T = TypeVar("T")

# Seconds to compile a network, and that this has to end after Ctrl-C; a second one ends the process
# at once.
_COMPILE_TIMEOUT, _COMPILE_GRACE = 3600.0, 60.0
# Seconds after which a compilation says what it is, and how often it says so again.
_SILENT, _AGAIN = 4.0, 60.0


def run_with_timeout(seconds: float, function: Callable[[], T], what: str, grace: float = 0.0) -> T:
    """Call a function in a thread; raise `TimeoutError`, and abandon the thread, if it does not
    return in time.

    After Ctrl-C it has `grace` seconds to return: a thread that is in TVM's code when Python ends
    can crash the process.

    >>> run_with_timeout(60, lambda: 7, "seven")
    7
    """
    outcome: list[T] = []
    failure: list[BaseException] = []
    ended = threading.Event()  # an interrupted `Thread.join` takes the thread for ended

    def call() -> None:
        try:
            outcome.append(function())
        except BaseException as error:
            failure.append(error)
        finally:
            ended.set()

    try:
        threading.Thread(target=call, daemon=True).start()
        ended.wait(seconds)
    except KeyboardInterrupt:
        ended.wait(grace)
        raise
    if failure:
        raise failure[0]
    if not outcome:
        raise TimeoutError(f"waited {seconds:g} seconds for {what}")
    return outcome[0]


def run_compiler(compile: Callable[[], T], what: str) -> T:
    """Call TVM's compiler in a thread, since Ctrl-C in one of its Python functions would crash the
    process.

    What takes more than some seconds says on standard error what it is, such as "building the
    network".
    """
    with say_if_long(what):
        return run_with_timeout(_COMPILE_TIMEOUT, compile, f"TVM, which is {what}", _COMPILE_GRACE)


@contextmanager
def say_if_long(what: str, done: Callable[[], str] = lambda: "") -> Iterator[None]:
    """Say on standard error what the block does if it takes more than some seconds, and every
    minute how long it has taken, and what is `done`.
    """
    ended, start = threading.Event(), time.monotonic()

    def say() -> None:
        wait = _SILENT
        while not ended.wait(wait):
            so_far = ", ".join(filter(None, [f"{time.monotonic() - start:.0f} s so far", done()]))
            tqdm.write(f"{what}: {so_far}", file=sys.stderr)
            wait = _AGAIN

    threading.Thread(target=say, daemon=True).start()
    try:
        yield
    finally:
        ended.set()
