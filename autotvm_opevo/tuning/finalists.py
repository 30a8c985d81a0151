"""The best trials of each task with what was built for them, to be timed again when tuning ends.
Imports no TVM.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import weakref
from collections import defaultdict
from contextlib import suppress
from itertools import count
from math import inf
from typing import Any, NamedTuple

# Number of finalists of a task, and how much slower than the best one may have been, since no noise
# is as large.
FINALISTS = 5
MAX_RATIO = 1.5


class Finalist(NamedTuple):
    """One of the best trials of a task.

    Attributes
    ----------
    seconds : float
        Its latency.
    trial, built : object
        The trial, and what was built for it, of the adapter's TVM.
    file : str
        A copy of the latter's, since the builder deletes its own.
    """

    seconds: float
    trial: Any
    built: Any
    file: str


class Finalists:
    """The finalists of all tasks; trials can be added by any thread."""

    def __init__(self) -> None:
        self._found: dict[Any, list[Finalist]] = defaultdict(list)  # the fastest first, by task
        self._folder: str | None = None  # of what was built
        self._numbers = count()
        self._lock = threading.Lock()

    def of(self, task: Any) -> list[Finalist]:
        """The best trials of a task, by its key, the fastest first; none that are out of reach of
        any noise.
        """
        found = self._found[task]
        return [one for one in found if one.seconds <= MAX_RATIO * found[0].seconds]

    def best(self, task: Any) -> float:
        """The shortest latency of a task in seconds; infinite before a success."""
        found = self._found[task]
        return found[0].seconds if found else inf

    def add(self, task: Any, trial: Any, built: Any, file: str, seconds: float) -> None:
        """Keep what was built for a trial if it is one of the best; see `Finalist`, `file` is the
        builder's.
        """
        with self._lock:
            found = self._found[task]
            if seconds == inf or (len(found) == FINALISTS and seconds >= found[-1].seconds):
                return
            try:
                copy = self._copy(file)
            except OSError:  # a full disk: it can still be the best, but not be confirmed
                return
            found.append(Finalist(seconds, trial, built, copy))
            found.sort(key=lambda finalist: finalist.seconds)
            for dropped in found[FINALISTS:]:
                with suppress(OSError):
                    os.unlink(dropped.file)
            del found[FINALISTS:]

    def clear(self) -> None:
        """Forget all."""
        self._found.clear()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def _copy(self, file: str) -> str:
        """Copy what was built; the copy lasts until `clear`."""
        if self._folder is None:
            self._folder = tempfile.mkdtemp()
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        copy = os.path.join(self._folder, f"{next(self._numbers)}{os.path.splitext(file)[1]}")
        return str(shutil.copyfile(file, copy))
