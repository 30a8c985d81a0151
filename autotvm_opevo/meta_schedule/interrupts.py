"""Ctrl-C while TVM is at work."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class SigintGuard:
    """Notes Ctrl-C, to be used in a ``with`` statement around what calls Python from C++.

    A `KeyboardInterrupt` comes back through TVM as another error without a word, and out of a callback within a callback not at
    all: the process crashes. Where Ctrl-C is not Python's own, or this is not the main thread, nothing is done.

    Attributes
    ----------
    noted : bool
        Whether it was pressed.
    """

    def __init__(self) -> None:
        self.noted = False
        self._held = self._installed = False

    def __enter__(self) -> SigintGuard:
        main = threading.current_thread() is threading.main_thread()
        if main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._note)
            self._installed = True
        return self

    def __exit__(self, *_: object) -> None:
        if self._installed:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            self._installed = False

    @contextmanager
    def held(self) -> Iterator[None]:
        """Let it come at the end of this block."""
        self._held = True
        try:
            yield
        finally:
            self._held = False
        if self.noted:
            raise KeyboardInterrupt

    def _note(self, number: int, frame: Any) -> None:
        self.noted = True
        if not self._held:
            raise KeyboardInterrupt
