"""The best trials of each task with what was built for them, to be timed again when tuning ends."""

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

from tvm.autotvm.measure import MeasureInput, MeasureResult
from tvm.autotvm.measure.measure_methods import BuildResult
from tvm.autotvm.task import Task

from autotvm_opevo.autotvm.log import Record, seconds, workload_key
from autotvm_opevo.tuning.race import FINALISTS, MAX_RATIO


class Finalist(NamedTuple):
    """One of the best trials of a task: its latency in seconds, without the machine's drift, and what was built."""

    seconds: float
    measured: MeasureInput
    result: MeasureResult
    build: BuildResult

    @property
    def record(self) -> Record:
        """As in a log."""
        return self.measured, self.result


class Finalists:
    """The finalists of all tasks; trials can be added by any thread."""

    def __init__(self) -> None:
        self._found: dict[Any, list[Finalist]] = defaultdict(list)  # the fastest first, by target and workload
        self._folder: str | None = None  # of what was built
        self._numbers = count()
        self._lock = threading.Lock()

    def of(self, task: Task) -> list[Finalist]:
        """The best trials of a task, the fastest first; none that are out of reach of any noise."""
        found = self._found[workload_key(task.target, task)]
        return [
            one
            for one in found
            if one.seconds <= MAX_RATIO * found[0].seconds
            or seconds(one.result) <= MAX_RATIO * seconds(found[0].result)  # as measured: the correction for drift can be wrong
        ]

    def best(self, task: Task) -> float:
        """The shortest latency of a task in seconds; infinite before a success."""
        found = self._found[workload_key(task.target, task)]
        return found[0].seconds if found else inf

    def add(self, measured: MeasureInput, build: BuildResult, result: MeasureResult, latency: float | None = None) -> None:
        """Keep what was built for a trial if it is one of the best, since the builder will delete it.

        `latency` is that without the machine's drift, in seconds.
        """
        mean = seconds(result) if latency is None else latency
        with self._lock:
            found = self._found[workload_key(measured.target, measured.task)]
            if mean == inf or (len(found) == FINALISTS and mean >= found[-1].seconds):
                return
            try:
                copy = self._copy(build.filename)
            except OSError:  # a full disk: it can still be the best, but not be confirmed
                return
            found.append(Finalist(mean, measured, result, build._replace(filename=copy)))
            found.sort(key=lambda finalist: finalist.seconds)
            for dropped in found[FINALISTS:]:
                with suppress(OSError):
                    os.unlink(dropped.build.filename)
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
