"""Ctrl-C while TVM's code runs. Imports no TVM."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def interrupts_in_tvm(defer: bool = False) -> Iterator[None]:
    """Raise `KeyboardInterrupt` at the end, whatever TVM made of it.

    From Python that C++ code calls, TVM makes another error of it, or none; from a callback within
    a callback it crashes, unless it is deferred to the end. Does nothing outside the main thread,
    or where another handler for SIGINT is installed, as within another such block. The command
    takes SIGTERM for it, also where SIGINT itself is ignored.
    """
    main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGINT)
    if not main or before not in (signal.default_int_handler, signal.SIG_IGN):
        yield
        return
    interrupted = False

    def handle(number: int, frame: object) -> None:
        nonlocal interrupted
        if number == signal.SIGINT and before is signal.SIG_IGN:
            return
        interrupted = True
        if not defer:
            raise KeyboardInterrupt

    signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if interrupted:
            raise KeyboardInterrupt
