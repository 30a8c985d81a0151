"""Where a run keeps its trials. Imports no TVM."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from autotvm_opevo.tuning.journal import Journal


class TrialStore(Protocol):
    """The trials of AutoTVM's log or of MetaSchedule's database, with a journal of what those have
    no room for.

    An adapter's store also knows the best of each task: what was timed again, unless a later trial
    is faster.
    """

    @property
    def path(self) -> Path:
        """AutoTVM's log, or MetaSchedule's work directory."""

    @property
    def journal(self) -> Journal:
        """Beside it."""

    def append(self, task: Any, trial: Any) -> None:
        """Write a trial of a `TaskState`; once this returns, it is not lost."""
