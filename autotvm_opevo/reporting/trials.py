"""What a report knows of a log: its trials, task by task, in memory that grows by some bytes a trial."""

from __future__ import annotations

import json
import math
from array import array
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from heapq import nsmallest
from typing import Any

import numpy as np

from autotvm_opevo.reporting.formatting import printable
from autotvm_opevo.reporting.timing import Array, time_spent
from autotvm_opevo.tuning.journal import Entry, Runs

# So many of a task's best configurations are shown.
_SHOWN = 5


@dataclass(frozen=True)
class Value:
    """What a knob was set to.

    Attributes
    ----------
    kind : {"tile", "inner tile", "order", "number", "annotation", "choice"}
        What the knob is: a factorization, one of which the log leaves the outermost part open, a permutation, a number, one word
        for each loop, or one of some options.
    value : hashable
        The vertex; of an inner tile, the parts that are known; of an annotation, the words.
    options : tuple
        All that a choice could be; empty where the log does not say.
    innermost : int
        The largest innermost part that a tile could have; 0 where the log does not say.
    """

    kind: str
    value: Hashable
    options: tuple[Hashable, ...] = ()
    innermost: int = 0


@dataclass(frozen=True)
class Trial:
    """One line of a log.

    Attributes
    ----------
    task : str
        What tells tasks apart, also those of different logs.
    name : str
        What people call the task.
    latency : float
        Seconds, infinite for a failure.
    failure : str
        Its kind; empty for what worked.
    target : str
        What it ran on.
    time : float
        When it ended, in seconds since 1970; not a number where the log does not say.
    knobs : dict of str to Value
    in_journal : str
        What a journal calls the task, if that is another.
    """

    task: str
    name: str
    latency: float
    failure: str
    target: str
    time: float
    knobs: dict[str, Value]
    in_journal: str = ""


@dataclass
class ValueStats:
    """How often a value was tried, and the best latency in seconds seen with it."""

    trials: int = 0
    latency: float = math.inf


@dataclass
class Knob:
    """A knob and the values that were tried; what they are and could be is as in `Value`."""

    kind: str
    options: tuple[Hashable, ...] = ()
    innermost: int = 0
    seen: dict[Hashable, ValueStats] = field(default_factory=dict)

    @property
    def trials(self) -> int:
        """That had this knob: not every sketch has it."""
        return sum(seen.trials for seen in self.seen.values())

    def add(self, value: Hashable, trials: int, latency: float) -> None:
        """Take so many trials of a value, the best of which took so many seconds."""
        seen = self.seen.get(value)
        if seen is None:
            seen = self.seen[value] = ValueStats()
        seen.trials += trials
        seen.latency = min(seen.latency, latency)


class Task:
    """The trials of one task in one log.

    Attributes
    ----------
    key, name, in_journal, target : str
        What tells it from others, what people call it, what a journal does, and what it ran on.
    knobs : dict of str to Knob
    failures : Counter
        Trials by the kind of failure.
    messages : dict of str to Counter
        Of each kind, what the errors said, where a journal says that.
    repeated : int
        Trials of a configuration that was measured before.
    elapsed : array of float
        Of every trial, the seconds that were spent on this task up to it; empty where the log does not say all.
    """

    def __init__(self, first: Trial) -> None:
        self.key, self.name, self.target = first.task, first.name, first.target
        self.in_journal = first.in_journal or first.task
        self.knobs: dict[str, Knob] = {}
        self.failures: Counter[str] = Counter()
        self.messages: dict[str, Counter[str]] = {}
        self.repeated = 0
        self.elapsed: Array = np.empty(0)
        self._latencies, self._times = array("d"), array("d")
        self._known: set[int] = set()
        self._top: list[tuple[float, int, dict[str, Value]]] = []

    def add(self, trial: Trial) -> None:
        """Take one more trial."""
        self._latencies.append(trial.latency)
        self._times.append(trial.time)
        if trial.failure:
            self.failures[trial.failure] += 1
        # Of the text: Python's hash of -1 is that of -2, and both are locations.
        configuration = hash(str([(name, value.value) for name, value in trial.knobs.items()]))
        self.repeated += configuration in self._known
        self._known.add(configuration)
        for name, value in trial.knobs.items():
            knob = self.knobs.get(name)
            if knob is None:
                knob = self.knobs[name] = Knob(value.kind, value.options, value.innermost)
            if value.kind != knob.kind:  # of a knob that can be a number or nothing, for example
                knob.kind = "choice"
            knob.add(value.value, 1, trial.latency)
        if trial.latency < (self._top[-1][0] if len(self._top) == _SHOWN else math.inf):
            self._top = nsmallest(_SHOWN, [*self._top, (trial.latency, len(self._latencies), trial.knobs)], key=lambda x: x[:2])

    def explain(self, entries: Sequence[Entry]) -> None:
        """Take what a journal says: messages of errors, and, where it has all trials, what the log lacks of them."""
        if len(entries) == len(self) and not np.isfinite(self.times).all():
            self._times = array("d", (entry.time for entry in entries))
            self.failures = Counter(printable(entry.failure) for entry in entries if entry.failure)
        for entry in entries:
            if entry.message:
                self.messages.setdefault(printable(entry.failure), Counter())[printable(entry.message)] += 1

    def __len__(self) -> int:
        return len(self._latencies)

    @property
    def latencies(self) -> Array:
        """Of every trial in seconds, infinite for a failure."""
        return np.array(self._latencies)

    @property
    def times(self) -> Array:
        """Of every trial, seconds since 1970; not a number where the log does not say."""
        return np.array(self._times)

    @property
    def best_so_far(self) -> Array:
        """The least latency up to every trial, in seconds."""
        return np.minimum.accumulate(self.latencies) if len(self) else self.latencies

    @property
    def best(self) -> float:
        """Seconds; infinite while nothing works."""
        return self._top[0][0] if self._top else math.inf

    @property
    def first(self) -> float:
        """Seconds of the first trial that worked; infinite while none does."""
        worked = self.latencies[np.isfinite(self.latencies)]
        return float(worked[0]) if len(worked) else math.inf

    @property
    def best_at(self) -> int:
        """The number of the best trial, from 1; 0 while nothing works."""
        return self._top[0][1] if self._top else 0

    @property
    def top(self) -> list[tuple[float, int, dict[str, Value]]]:
        """The best trials, the best first: seconds, the trial's number, the knobs."""
        return list(self._top)


class Recording:
    """All tasks of one log.

    Attributes
    ----------
    label : str
        What the report calls it.
    tasks : dict of str to Task
        In the order in which they were first tried.
    torn, foreign : int
        Lines that are no JSON, and lines that are, but no trial; empty ones and comments are neither.
    runs : Runs
        What a journal says of them.
    elapsed : array of float
        When the trials of all tasks ended, in that order: seconds of tuning, without pauses.
    pauses : list of float
        How long nothing was measured, in seconds, each time that a run was gone on with.
    exists : bool
        Whether there is such a file by now.
    """

    def __init__(self, label: str) -> None:
        self.label = label
        self.tasks: dict[str, Task] = {}
        self.malformed = self.unrelated = 0
        self.runs = Runs()
        self.elapsed: Array = np.empty(0)
        self.pauses: list[float] = []
        self.exists = True

    def read(self, lines: Iterable[bytes], trial: Callable[[Any], Trial]) -> None:
        """Take the trial that each line says; count those that say none."""
        for line in lines:
            if not line.strip() or line.startswith(b"#"):
                continue
            try:
                said = json.loads(line)
            except (RecursionError, ValueError):
                self.malformed += 1
                continue
            try:
                self.add(trial(said))
            except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError):
                self.unrelated += 1

    def add(self, trial: Trial) -> None:
        """Take one more trial, whole or not at all."""
        hash(tuple(trial.knobs.values()))  # a value that is none, a list for example, raises before anything is taken
        if trial.task not in self.tasks:
            self.tasks[trial.task] = Task(trial)
        self.tasks[trial.task].add(trial)

    def complete(self, journal: Iterable[Entry]) -> None:
        """When all lines are read: take what a journal says of the trials that are here, and how long they took."""
        entries: dict[str, list[Entry]] = {}
        for entry in journal:
            self.runs.add(entry)
            entries.setdefault(entry.task, []).append(entry)
        for task in self.tasks.values():
            task.explain(entries.get(task.in_journal, ()))
        timing = time_spent([task.times for task in self.tasks.values()], self.runs.starts)
        self.elapsed, self.pauses = timing.together, timing.pauses
        for task, seconds in zip(self.tasks.values(), timing.on_tasks):
            task.elapsed = seconds

    def __len__(self) -> int:
        return sum(map(len, self.tasks.values()))
