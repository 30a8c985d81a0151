"""Ctrl-C, which a terminal sends to this process and all of its children."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_interrupts_in_children() -> Iterator[None]:
    """Shield threads and processes started within, and their children, from Ctrl-C; this thread
    gets it on leaving.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def interrupts_in_tvm(defer: bool = False) -> Iterator[None]:
    """Raise `KeyboardInterrupt` at the end, whatever TVM made of it.

    From Python that C++ code calls, TVM makes another error of it; from a callback within a
    callback it crashes, unless it is deferred to the end. Does nothing outside the main thread, or
    where another handler for SIGINT is installed.
    """
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    interrupted = False

    def handle(number: int, frame: object) -> None:
        nonlocal interrupted
        interrupted = True
        if not defer:
            raise KeyboardInterrupt

    signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if interrupted:
            raise KeyboardInterrupt
