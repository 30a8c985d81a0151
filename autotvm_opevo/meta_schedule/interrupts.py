"""Ctrl-C during a call into TVM."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class SigintGuard:
    """Context manager that remembers Ctrl-C, for C++ code that calls Python.

    TVM turns a `KeyboardInterrupt` into another error without a message; raised in a callback within a callback, it crashes the
    process. Does nothing outside the main thread, or where another handler for SIGINT is installed.

    Attributes
    ----------
    interrupted : bool
        Whether Ctrl-C was pressed.
    """

    def __init__(self) -> None:
        self.interrupted = False
        self._deferred = self._installed = False

    def __enter__(self) -> SigintGuard:
        main = threading.current_thread() is threading.main_thread()
        if main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._handle)
            self._installed = True
        return self

    def __exit__(self, *_: object) -> None:
        if self._installed:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            self._installed = False

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Raise `KeyboardInterrupt` only at the end of this block."""
        self._deferred = True
        try:
            yield
        finally:
            self._deferred = False
        if self.interrupted:
            raise KeyboardInterrupt

    def _handle(self, number: int, frame: Any) -> None:
        self.interrupted = True
        if not self._deferred:
            raise KeyboardInterrupt
