"""Ctrl-C, which a terminal sends to this process and all of its children."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_interrupts_in_children() -> Iterator[None]:
    """Shield threads and processes started within, and their children, from Ctrl-C; this thread gets it on leaving."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
