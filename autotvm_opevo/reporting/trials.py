"""Trials, with the values of their knobs, and the tasks that they belong to."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Mapping
from functools import cached_property
from typing import NamedTuple

import numpy as np

from autotvm_opevo.tuning.run_log import BestConfirmed

Array = np.ndarray[tuple[int], np.dtype[np.float64]]

# The kind of MetaSchedule's failures, which only a run log knows.
UNKNOWN_FAILURE = "failed"


class Value(NamedTuple):
    """A value of a knob."""

    # "tile", "inner tile", of which AutoTVM's log omits the outermost part, "order", "number",
    # "annotation", with one string per loop, or "choice"
    kind: str
    value: Hashable


class Trial(NamedTuple):
    """One record of a log: its latency in seconds, infinite for a failure; the kind of failure,
    empty for a success; the values of its knobs by name; and when it ended, as a Unix timestamp,
    NaN if unknown.
    """

    latency: float
    failure: str
    knobs: Mapping[str, Value]
    time: float = math.nan


class TaskId(NamedTuple):
    """What a record says of its task: its key in all logs, name, target, and key in run logs."""

    key: str
    name: str
    target: str
    run_log_key: str


class Task:
    """The trials of one task in one log, in order of time if that is known."""

    def __init__(self, task: TaskId) -> None:
        self.key, self.name, self.target, self.run_log_key = task
        self.trials: list[Trial] = []
        self.messages: dict[str, Counter[str]] = {}  # by kind of failure, from the run log
        # seconds spent on this task until the end of each trial; empty if some are unknown
        self.elapsed: Array = np.empty(0)
        self.last_confirmation: BestConfirmed | None = None  # of its best, at the end of a run

    def __len__(self) -> int:
        return len(self.trials)

    @cached_property
    def latencies(self) -> Array:
        """Latency of each trial in seconds; infinite for failures."""
        return np.array([trial.latency for trial in self.trials])

    @property
    def best(self) -> float:
        """Lowest latency in seconds; infinite if all trials failed."""
        return float(self.latencies.min())

    @property
    def latency(self) -> float:
        """What its best takes, in seconds: as it was re-measured, since the best trial may have
        been a lucky one, unless a later trial is faster.
        """
        last = self.last_confirmation
        if last is None:
            return self.best
        later = [trial.latency for trial in self.trials if trial.time > last.time]
        return min([last.latency, *later])

    @property
    def confirmation(self) -> BestConfirmed | None:
        """Its last timings, unless a later trial was faster, or it was timed only once."""
        last = self.last_confirmation
        if last is None or len(last.latencies) == 1 or self.latency < last.latency:
            return None
        return last

    @cached_property
    def failures(self) -> Counter[str]:
        """Number of failed trials by kind of failure."""
        return Counter(trial.failure for trial in self.trials if trial.failure)

    def message_of(self, kind: str) -> str:
        """The most common error message of a kind of failure; empty if a run log has none."""
        messages = self.messages.get(kind, Counter())
        if kind == UNKNOWN_FAILURE and not messages:
            messages = sum(self.messages.values(), Counter())
        return messages.most_common(1)[0][0] if messages else ""

    @cached_property
    def measured(self) -> dict[Hashable, float]:
        """Lowest latency in seconds of each configuration."""
        lowest: dict[Hashable, float] = {}
        for trial in self.trials:
            configuration = tuple(trial.knobs.items())
            lowest[configuration] = min(trial.latency, lowest.get(configuration, math.inf))
        return lowest
