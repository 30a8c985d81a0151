"""One task of a network: its trials, its best latency, its failures and its time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from math import inf
from typing import Any

from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.analysis import estimate_tir_flops

from autotvm_opevo.meta_schedule.naming import kind_of, task_name
from autotvm_opevo.tuning.task_scheduler import TaskProgress


class TaskState:
    """What the database and this call know of a task.

    Parameters
    ----------
    task : ExtractedTask

    Attributes
    ----------
    name, key : str
        In tables; the structural hash, in the journal.
    """

    def __init__(self, task: Any) -> None:
        self.mod = task.dispatched[0]
        self.name, self.key = task_name(task), str(ms.database.Workload(self.mod).as_json()[0])
        self.progress = TaskProgress(flop=float(estimate_tir_flops(self.mod)), kind=kind_of(task))
        self.latency = inf
        self.failures: Counter[str] = Counter()
        self._errors: Counter[str] = Counter()
        self._before, self._seconds = 0, 0.0  # trials of earlier calls, and the seconds of all others

    @property
    def dominant_error(self) -> str:
        """The most common error while all trials fail; empty otherwise."""
        return self._errors.most_common(1)[0][0] if self._errors and self.latency == inf else ""

    def add(self, latency: float, kind: str, message: str) -> None:
        """Count a trial."""
        self.progress.trials += 1
        self.latency = min(self.latency, latency)
        if kind:
            self.failures[kind] += 1
            self._errors[message or kind] += 1

    def resume(self, latencies: Iterable[float]) -> None:
        """Count the trials of earlier calls."""
        for latency in latencies:
            self.add(latency, "failed" if latency == inf else "", "")
        self._before = self.progress.trials
        if self._before:
            self.end_round()

    def end_round(self) -> None:
        """After each batch."""
        self.progress.latencies.append(self.latency)

    def confirmed(self, latency: float) -> None:
        """Take what the best trial took when it was timed again."""
        self.latency = latency
        self.progress.latencies[-1:] = [latency]

    def took(self, seconds: float) -> None:
        """Count the seconds of the last batch; earlier calls took as long for each trial."""
        now = self.progress.trials - self._before
        self._seconds += seconds
        self.progress.seconds = self._seconds * self.progress.trials / now if now else 0.0
