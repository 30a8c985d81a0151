"""Calls that may never return, and those of TVM's compiler. Imports no TVM."""

from __future__ import annotations

import resource
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from math import inf
from traceback import format_exception_only
from typing import Any, TypeVar

from tqdm import tqdm

from autotvm_opevo._utils.text import last_line

T = TypeVar("T")

# Seconds to compile a network, and that this has to end after Ctrl-C; a second one ends the process
# at once.
_COMPILE_TIMEOUT, _COMPILE_GRACE = 3600.0, 60.0
# Bytes of stack that TVM's compiler has at least, which recurses over networks: where the system
# sets no limit, a thread has little.
_STACK = 64 << 20
_setting_stack = threading.Lock()
# Seconds of silence after which something that takes long says what it is, and those after which it
# does not belong to what came before.
SILENT, _PAUSE = 4.0, 1.0
# Since when the user has heard nothing, and until when a block of `say_if_long` ran.
_quiet_since = _busy_until = -inf


def run_with_timeout(seconds: float, function: Callable[[], T], what: str, grace: float = 0.0) -> T:
    """Call a function in a thread; raise `TimeoutError`, and abandon the thread, if it does not
    return in time.

    After Ctrl-C it has `grace` seconds to return: a thread that is in TVM's code when Python ends
    can crash the process.

    >>> run_with_timeout(60, lambda: 7, "seven")
    7
    """
    outcome: Future[T] = Future()

    def call() -> None:
        try:
            outcome.set_result(function())
        except BaseException as error:
            outcome.set_exception(error)

    thread = threading.Thread(target=call, daemon=True)
    try:
        with _setting_stack:
            limit, _ = resource.getrlimit(resource.RLIMIT_STACK)
            usual = threading.stack_size(0 if limit > _STACK else _STACK)
            try:
                thread.start()
            finally:
                threading.stack_size(usual)
        done, _ = wait([outcome], seconds)
    except KeyboardInterrupt:
        wait([outcome], grace)
        raise
    if not done:
        raise TimeoutError(f"waited {seconds:g} seconds for {what}")
    return outcome.result()


def run_compiler(compile: Callable[[], T], what: str) -> T:
    """Call TVM's compiler in a thread, since Ctrl-C in one of its Python functions would crash the
    process.

    What takes more than some seconds says on standard error what it is, such as "building the
    network". The compiler's errors, of many kinds and some of them over many lines, become a
    `RuntimeError` that says it, too; a `ValueError` is about what was given.
    """
    try:
        with say_if_long(what):
            return run_with_timeout(
                _COMPILE_TIMEOUT, compile, f"TVM, which is {what}", _COMPILE_GRACE
            )
    except (ImportError, OSError, ValueError):
        raise
    except Exception as error:
        why = last_line(format_exception_only(type(error), error)[0])  # without notes
        raise RuntimeError(f"TVM failed while {what}: {why}") from error


@contextmanager
def say_if_long(what: str, done: Callable[[], str] = lambda: "") -> Iterator[None]:
    """Say on standard error what the block does where some seconds pass in silence, how long it has
    taken, and what is `done`: in a terminal in the same line.
    """
    global _quiet_since, _busy_until
    ended, start = threading.Event(), time.monotonic()
    is_terminal = bool(getattr(_stderr(), "isatty", bool)())

    def left() -> float:
        """Seconds until something has to be said."""
        return max(0.0, _quiet_since + SILENT - time.monotonic())

    def say() -> None:
        global _quiet_since
        said = ""
        while not ended.wait(left()):
            if left():  # another block has said something meanwhile
                continue
            so_far = ", ".join(filter(None, [f"{time.monotonic() - start:.0f} s so far", done()]))
            said = f"{what}: {so_far}".ljust(len(said) if is_terminal else 0)
            _write(said, "\r" if is_terminal else "\n")
            _quiet_since = time.monotonic()
        if said and is_terminal:
            _write(said)
            _quiet_since = time.monotonic()

    if start > _busy_until + _PAUSE:  # else it follows closely on something else
        _quiet_since = start
    thread = threading.Thread(target=say, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        _busy_until = time.monotonic()


def _write(text: str, end: str = "\n") -> None:
    """Write to standard error, where there is one: beside a progress bar, not into it."""
    if (stream := _stderr()) is not None:
        tqdm.write(text, file=stream, end=end)


def _stderr() -> Any:
    """Standard error, which may be what only writes; None if there is none, or it is closed."""
    return None if getattr(sys.stderr, "closed", False) else sys.stderr
