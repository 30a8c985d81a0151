"""The content of a log, whichever tool wrote it: tasks, runs and time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from autotvm_opevo._utils import jsonl
from autotvm_opevo._utils.text import printable
from autotvm_opevo.reporting.timing import time_spent
from autotvm_opevo.reporting.trials import Array, Task, Trial
from autotvm_opevo.tuning.journal import Event, RunHistory, TrialEnded
from autotvm_opevo.tuning.logs import is_best


class TuningLog:
    """All tasks of one log.

    Attributes
    ----------
    label : str
        The log's name in the report.
    tasks : dict of str to Task
        In order of their first trials.
    malformed, unrelated : int
        Number of lines that are not JSON, and of those that are but hold no trial. Blank lines and comments are not counted.
    runs : RunHistory
        The runs that wrote the log, according to its journal.
    elapsed : array of float
        Seconds of tuning, without pauses, until the end of each trial, in order of time; empty if some timestamps are unknown.
    pauses : list of float
        Duration in seconds of each pause between runs.
    path : Path
        The log file, or the folder of a database.
    exists : bool
        Whether the file exists yet.
    """

    def __init__(self, label: str, path: Path = Path()) -> None:
        self.label, self.path = label, path
        self.tasks: dict[str, Task] = {}
        self.malformed = self.unrelated = 0
        self.runs = RunHistory()
        self.elapsed: Array = np.empty(0)
        self.pauses: list[float] = []
        self.exists = True
        self._size = 0

    def read(self, lines: Iterable[bytes], parse_trial: Callable[[Any], Trial]) -> None:
        """Add the trial of each line; count the lines that have none."""
        for _, value in jsonl.read(lines):
            if value is jsonl.MALFORMED:
                self.malformed += 1
                continue
            try:
                self.add(parse_trial(value))
            except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError):
                self.unrelated += 1

    def add(self, trial: Trial) -> None:
        """Add a trial; if one of its values is not hashable, raise before anything is changed."""
        hash(tuple(trial.knobs.values()))
        if trial.task not in self.tasks:
            self.tasks[trial.task] = Task(trial)
        self.tasks[trial.task].add(trial, self._size)
        self._size += 1

    def merge_journal(self, events: Iterable[Event]) -> None:
        """Add what a journal knows of the trials, and compute the time spent on them. Call once, after all trials are added."""
        events, runs = list(events), self.runs
        runs.replay(events)
        by_task: dict[str, list[TrialEnded]] = {}
        for event in events:
            if isinstance(event, TrialEnded):
                by_task.setdefault(event.task, []).append(event)
        runs.tuners, runs.command = list(map(printable, runs.tuners)), printable(runs.command)
        runs.phases = {printable(phase): seconds for phase, seconds in runs.phases.items()}
        targets = Counter(task.journal_key for task in self.tasks.values())  # a key may leave out the target
        for task in self.tasks.values():
            task.name = printable(self.runs.names.get(task.journal_key, task.name))
            task.topologies = self.runs.knobs.get(task.journal_key, {})
            confirmation = self.runs.confirmed.get(task.journal_key) if targets[task.journal_key] == 1 else None
            task.merge_journal(by_task.get(task.journal_key, ()), confirmation, self.runs.cut_off)
        time = time_spent([task.times for task in self.tasks.values()], self.runs.starts, self.runs.ready)
        self.elapsed, self.pauses = time.overall, time.pauses
        for task, seconds in zip(self.tasks.values(), time.per_task):
            task.elapsed = seconds

    @property
    def has_best_only(self) -> bool:
        """Whether it holds the best of another log, and is none of a run's own."""
        return is_best(self.path) and not self.runs.starts

    def __len__(self) -> int:
        return self._size
