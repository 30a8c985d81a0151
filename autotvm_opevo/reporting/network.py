"""What the tasks of several logs are together: a network's operators, how often each runs, and the tasks that compute it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from autotvm_opevo.reporting.trials import Array, Knob, Recording, Task


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
    count : int
        How often the network runs it; 1 where no journal says.
    ways : list of TaskInLogs
        The tasks that compute it, the best first: TVM may have several templates for one operator.
    """

    count: int
    ways: list[TaskInLogs]

    @property
    def seconds(self) -> float:
        """With the best configuration of any log."""
        return self.count * self.ways[0].best

    @property
    def seconds_before(self) -> float:
        """With the first of the best task's trials that worked."""
        return self.count * self.ways[0].fastest.first

    def seconds_in(self, log: int) -> float:
        """With the best configuration of one log."""
        return self.count * min((run.task.best for way in self.ways for run in way.runs if run.log == log), default=math.inf)


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
        known: dict[str, list[TaskInLogs]] = {}
        for one in self.tasks:
            known.setdefault(one.any.in_journal, []).append(one)
        self.operators: list[Operator] = []
        for count, names in [operator for recording in recordings for operator in recording.network.get("operators", ())]:
            self._add(count, [task for name in names for task in known.pop(name, ())])  # of two journals, the first one counts
        self.counted = not known
        for tasks in known.values():
            self._add(1, tasks)
        self.operators.sort(key=lambda operator: (operator.seconds == math.inf, -operator.seconds))

    def _add(self, count: int, tasks: list[TaskInLogs]) -> None:
        if tasks:
            self.operators.append(Operator(count, sorted(tasks, key=lambda task: task.best)))

    def seconds_in(self, log: int) -> float:
        """Of all operators of a log that work there, with the best configurations that it found."""
        return math.fsum(seconds for operator in self.operators if (seconds := operator.seconds_in(log)) < math.inf)

    def best_so_far(self, log: int) -> Array:
        """The seconds of all operators after each of a log's trials, in their order; empty where that is not known.

        Infinite while one of them has none that works. As long as `Recording.elapsed`.
        """
        ways = [[run.task for way in one.ways for run in way.runs if run.log == log] for one in self.operators]
        times = [task.times for tasks in ways for task in tasks]
        ended = np.concatenate([np.empty(0), *times])
        if not np.isfinite(ended).all() or not all(ways):
            return np.empty(0)
        place = np.empty(len(ended), int)
        place[np.argsort(ended, kind="stable")] = np.arange(len(ended))
        places = iter(np.split(place, np.cumsum([len(one) for one in times])[:-1]))
        total = np.zeros(len(ended))
        for operator, tasks in zip(self.operators, ways):
            latencies = np.full(len(ended), math.inf)
            for task in tasks:
                latencies[next(places)] = operator.count * task.latencies
            total += np.minimum.accumulate(latencies)
        return total
