"""One task of a run: how many trials it has had, how fast the best of them is, and how the others
failed; and where a run keeps its trials. Imports no TVM.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from math import inf
from pathlib import Path
from typing import Any, Protocol

from autotvm_opevo.tuning.run_log import RunLog
from autotvm_opevo.tuning.task_scheduler import TaskProgress


class TaskState(ABC):
    """A task of the adapter's TVM, with its name in tables and its key in the run log, and its
    trials; an adapter's subclass has its search.
    """

    def __init__(self, task: Any, name: str, key: str, progress: TaskProgress) -> None:
        self.task, self.name, self.key, self.progress = task, name, key, progress
        self.latency = inf  # of the best trial, in seconds
        self.bound = 0.0  # seconds by the machine's roofline, at least; 0 if unknown
        self.failures: Counter[str] = Counter()  # by the kind of error
        self._errors: Counter[str] = Counter()  # by message, which records of earlier calls lack

    @property
    @abstractmethod
    def best(self) -> Any:
        """The record of the best trial, of the adapter's TVM; None without one."""

    @property
    def dominant_error(self) -> str:
        """The most common error, or its message, while all trials fail; empty otherwise."""
        errors = self._errors or self.failures
        return errors.most_common(1)[0][0] if errors and self.latency == inf else ""

    @property
    @abstractmethod
    def can_propose(self) -> bool:
        """Whether it can propose now, or needs the results of what is being measured first."""

    def propose(self, size: int, others: Sequence[Any] = ()) -> Sequence[Any]:
        """Up to `size` candidates, which count as pending; none, and inactive, if the task is
        exhausted. `others` are the states of all tasks, from which it may learn.
        """
        candidates = self._propose(size, others)
        self.progress.active = len(candidates) > 0
        self.progress.pending += len(candidates)
        return candidates

    @abstractmethod
    def _propose(self, size: int, others: Sequence[Any]) -> Sequence[Any]:
        """See `propose`."""

    @abstractmethod
    def add(self, trial: Any) -> None:
        """Count a trial of a candidate."""

    @abstractmethod
    def finish(self, trials: Sequence[Any]) -> None:
        """The trials of all candidates that were proposed together are there, in their order."""

    def end_round(self) -> None:
        """Record the best latency for the `TaskScheduler`."""
        self.progress.latencies.append(self.latency)

    def confirmed(self, latency: float) -> None:
        """Take what the best trial took when it was timed again; a later one can be faster."""
        self.latency = latency
        self.progress.latencies[-1:] = [latency]

    def _count(self, latency: float, failure: str = "", message: str = "") -> None:
        """Count a trial of this call or an earlier one."""
        self.progress.trials += 1
        self.latency = min(self.latency, latency)
        if failure:
            self.failures[failure] += 1
            self._errors.update([message] if message else [])


class TrialStore(Protocol):
    """The trials of AutoTVM's log or of MetaSchedule's database, with a run log of what those have
    no room for. An adapter's store also knows the best of each task.
    """

    @property
    def path(self) -> Path:
        """AutoTVM's log, or MetaSchedule's work directory."""

    @property
    def run_log(self) -> RunLog:
        """Beside it."""

    def append(self, task: Any, trial: Any) -> None:
        """Write a trial of a `TaskState`; once this returns, it is not lost."""
