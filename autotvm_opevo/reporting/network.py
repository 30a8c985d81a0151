"""What the tasks of several logs are together: a network's operators, how often each runs, and the tasks that compute it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from autotvm_opevo.reporting.timing import Array
from autotvm_opevo.reporting.trials import Knob, Recording, Task


class Run(NamedTuple):
    """A task's trials in one log: the log's number and label."""

    log: int
    label: str
    task: Task


@dataclass(frozen=True)
class TaskInLogs:
    """One task in all logs that have it.

    Attributes
    ----------
    number : int
        In the order in which tasks appear, from 1: what it is addressed by, which does not change while logs grow.
    runs : list of Run
    """

    number: int
    runs: list[Run]

    @property
    def any(self) -> Task:
        """In one of the logs, where that makes no difference: its name, target and key."""
        return self.runs[0].task

    @property
    def fastest(self) -> Task:
        """In the log that found the best."""
        return min((run.task for run in self.runs), key=lambda task: task.best)

    @property
    def best(self) -> float:
        """Seconds; infinite while nothing works."""
        return self.fastest.best

    @property
    def knobs(self) -> Mapping[str, Knob]:
        """What was seen of each knob in all logs together."""
        found: dict[str, Knob] = {}
        for run in self.runs:
            for name, knob in run.task.knobs.items():
                into = found.setdefault(name, Knob(knob.kind, knob.options, knob.innermost))
                into.kind = knob.kind if knob.kind == into.kind else "choice"
                for value, seen in knob.seen.items():
                    into.add(value, seen.trials, seen.latency)
        return found


@dataclass(frozen=True)
class Operator:
    """One operator; seconds are of all its runs, infinite while nothing works.

    Attributes
    ----------
    ways : list of TaskInLogs
        The tasks that compute it, the best first: TVM may have several templates for one operator.
    counts : mapping of int to int
        How often the network of each log runs it, as far as journals say that.
    """

    implementations: list[TaskInLogs]
    counts: Mapping[int, int]

    def count_in(self, log: int) -> int:
        """As the log's journal says, or else another's; 1 where none does."""
        return self.counts.get(log, next(iter(self.counts.values()), 1))

    def seconds_in(self, log: int) -> float:
        """With the best configuration of one log."""
        return self.count_in(log) * min((run.task.best for run in self.runs_in(log)), default=math.inf)

    def seconds_before(self, log: int) -> float:
        """With the first trial that worked, of what is best in the end."""
        fastest = min(self.runs_in(log), key=lambda run: run.task.best, default=None)
        return self.count_in(log) * fastest.task.first if fastest else math.inf

    @property
    def seconds(self) -> float:
        """In the log where they are the most, of those in which it works."""
        found = [self.seconds_in(run.log) for implementation in self.implementations for run in implementation.runs]
        return max((seconds for seconds in found if seconds < math.inf), default=math.inf)

    @property
    def name(self) -> str:
        """What its best way is called, and how often it is run if that is more than once in every log."""
        counts = {self.count_in(run.log) for implementation in self.implementations for run in implementation.runs}
        name = self.implementations[0].any.name
        return f"{min(counts)} times {name}" if len(counts) == 1 and counts != {1} else name

    def runs_in(self, log: int) -> list[Run]:
        """All its ways in one log."""
        return [run for implementation in self.implementations for run in implementation.runs if run.log == log]


class Network:
    """All tasks of all logs.

    Parameters
    ----------
    recordings : sequence of Recording

    Attributes
    ----------
    tasks : list of TaskInLogs
        In the order in which they appear.
    operators : list of Operator
        What takes the most time first, and that of which nothing works last. A task that no journal names is one by itself.
    counted : bool
        Whether journals say of every task how often it runs.
    """

    def __init__(self, recordings: Sequence[Recording]) -> None:
        found: dict[str, list[Run]] = {}
        for log, recording in enumerate(recordings):
            for key, task in recording.tasks.items():
                found.setdefault(key, []).append(Run(log, recording.label, task))
        self.tasks = [TaskInLogs(number, runs) for number, runs in enumerate(found.values(), start=1)]
        named = list(_named([recording.runs.operators for recording in recordings], self.tasks))
        numbers = {task.number for operator in named for task in operator.implementations}
        self.counted = len(numbers) == len(self.tasks)
        self.operators = [*named, *(Operator([task], {}) for task in self.tasks if task.number not in numbers)]
        self.operators.sort(key=lambda operator: (operator.seconds == math.inf, -operator.seconds))
        self._untried = [_untried(recording) for recording in recordings]

    def operators_in(self, log: int) -> list[Operator]:
        """Those that a log has tried."""
        return [operator for operator in self.operators if operator.runs_in(log)]

    def lacking_in(self, log: int) -> int:
        """How many of a log's operators have no trial that works: what its journal names counts also before it is tried."""
        return self._untried[log] + sum(operator.seconds_in(log) == math.inf for operator in self.operators_in(log))

    def seconds_in(self, log: int) -> float:
        """Of all operators of a log that work there, with the best configurations that it found."""
        return math.fsum(seconds for operator in self.operators if (seconds := operator.seconds_in(log)) < math.inf)

    def best_so_far(self, log: int) -> Array:
        """The seconds of all a log's operators after each of its trials, in their order; empty where that is not known.

        Infinite while one of them has none that works. As long as `Recording.elapsed`.
        """
        operators = self.operators_in(log)
        implementations = [[run.task for run in operator.runs_in(log)] for operator in operators]
        times = [task.times for tasks in implementations for task in tasks]
        ended = np.concatenate([np.empty(0), *times])
        if not np.isfinite(ended).all() or self.lacking_in(log):
            return np.empty(0)
        place = np.empty(len(ended), int)
        place[np.argsort(ended, kind="stable")] = np.arange(len(ended))
        places = iter(np.split(place, np.cumsum([len(one) for one in times])[:-1]))
        total = np.zeros(len(ended))
        for operator, tasks in zip(operators, implementations):
            latencies = np.full(len(ended), math.inf)
            for task in tasks:
                latencies[next(places)] = operator.count_in(log) * task.latencies
            total += np.minimum.accumulate(latencies)
        return total


def _untried(recording: Recording) -> int:
    """How many operators a journal names of which its log has nothing."""
    tried = {task.in_journal for task in recording.tasks.values()}
    return sum(tried.isdisjoint(names) for names in recording.runs.operators)


def _named(said: Sequence[Mapping[tuple[str, ...], int]], tasks: Sequence[TaskInLogs]) -> Iterator[Operator]:
    """The operators that the logs' journals name, with what there is of their tasks."""
    for names in _joined([set(some) for operators in said for some in operators]):
        counts = {log: count for log, operators in enumerate(said) for some, count in operators.items() if names.issuperset(some)}
        implementations: dict[str, list[TaskInLogs]] = {}  # a journal's names are of any target
        for task in tasks:
            if task.any.in_journal in names:
                implementations.setdefault(task.any.target, []).append(task)
        for alike in implementations.values():
            yield Operator(sorted(alike, key=lambda task: task.best), counts)


def _joined(sets: Sequence[set[str]]) -> list[set[str]]:
    """Sets that share something made one: journals of different logs may know different ways to compute an operator.

    >>> [sorted(one) for one in _joined([{"a", "b"}, {"c"}, {"b", "d"}])]
    [['c'], ['a', 'b', 'd']]
    """
    joined: list[set[str]] = []
    for one in sets:
        others = [other for other in joined if not other & one]
        joined = [*others, one.union(*(other for other in joined if other & one))]
    return joined
