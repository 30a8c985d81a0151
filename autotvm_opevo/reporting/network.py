"""The tasks of all logs as a network: its operators, how often each runs, and the tasks that
implement them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from autotvm_opevo.reporting.logs import TuningLog
from autotvm_opevo.reporting.trials import Array, Knob, Task


class TaskInLog(NamedTuple):
    """A task's trials in one log, with the log's index among all logs and its label."""

    log_index: int
    label: str
    task: Task


@dataclass(frozen=True)
class TaskInLogs:
    """One task in all logs that contain it.

    Attributes
    ----------
    number : int
        Order of first appearance, from 1. Links use it, because it does not change while logs grow.
    in_logs : list of TaskInLog
    """

    number: int
    in_logs: list[TaskInLog]

    @property
    def name(self) -> str:
        """Display name."""
        return self.in_logs[0].task.name

    @property
    def example(self) -> Task:
        """The task in one of the logs, for what is the same in all: key, journal key and target."""
        return self.in_logs[0].task

    @property
    def best(self) -> float:
        """Latency in seconds of the best trial in any log; infinite if all failed."""
        return min(task.best for _, _, task in self.in_logs)

    @property
    def latency(self) -> float:
        """What the best takes, in seconds, in the log where it takes least; infinite if all trials
        failed.
        """
        return min(task.latency for _, _, task in self.in_logs)

    @cached_property
    def knobs(self) -> Mapping[str, Knob]:
        """The knobs, with the statistics of all logs combined."""
        knobs: dict[str, Knob] = {}
        for _, _, task in self.in_logs:
            for name, knob in task.knobs.items():
                total = knobs.setdefault(name, Knob(knob.kind, knob.options, knob.innermost))
                total.kind = knob.kind if knob.kind == total.kind else "choice"
                for value, stats in knob.stats.items():
                    total.merge(value, stats)
        return knobs


@dataclass(frozen=True)
class Operator:
    """One operator of the network. Times are in seconds for all its runs, and infinite if all
    trials failed.

    Attributes
    ----------
    implementations : list of TaskInLogs
        The tasks that compute it, fastest first: TVM may have several templates for an operator.
    counts : mapping of int to int
        How often the network runs it, by the index of a log; only for logs whose journals have it.
    """

    implementations: list[TaskInLogs]
    counts: Mapping[int, int]

    def count_in(self, index: int) -> int:
        """Number of runs according to a log's journal; if it has none, another log's; otherwise
        1.
        """
        return self.counts.get(index, next(iter(self.counts.values()), 1))

    def seconds_in(self, index: int) -> float:
        """Time with the best configuration in a log."""
        return self.count_in(index) * min(
            (task.latency for task in self.tasks_in(index)), default=math.inf
        )

    def first_seconds_in(self, index: int) -> float:
        """Time with the first successful configuration in a log, of the implementation that is
        fastest in the end.
        """
        return (
            self.count_in(index) * self.fastest_in(index).first_success
            if self.tasks_in(index)
            else math.inf
        )

    def fastest_in(self, index: int) -> Task:
        """The fastest implementation in a log that has one."""
        return min(self.tasks_in(index), key=lambda task: task.latency)

    @property
    def seconds(self) -> float:
        """Time in the log where it is highest, of those with a successful trial."""
        times = [self.seconds_in(index) for index in self._logs()]
        return max((seconds for seconds in times if seconds < math.inf), default=math.inf)

    @property
    def name(self) -> str:
        """Name of the fastest implementation, with the number of runs if that is the same in all
        logs and not 1.
        """
        counts = {self.count_in(index) for index in self._logs()}
        name = self.implementations[0].name
        return f"{min(counts)} times {name}" if len(counts) == 1 and counts != {1} else name

    def tasks_in(self, index: int) -> list[Task]:
        """The implementations in a log."""
        return [
            task
            for implementation in self.implementations
            for i, _, task in implementation.in_logs
            if i == index
        ]

    def _logs(self) -> Iterator[int]:
        """Indices of the logs that contain it, repeated for each implementation."""
        return (
            index
            for implementation in self.implementations
            for index, _, _ in implementation.in_logs
        )


class Network:
    """All tasks of all logs.

    Parameters
    ----------
    logs : sequence of TuningLog

    Attributes
    ----------
    tasks : list of TaskInLogs
        In order of first appearance.
    operators : list of Operator
        By time, highest first; those without a successful trial are last. A task in no journal is
        an operator by itself.
    log_count : int
    has_counts : bool
        Whether journals have the number of runs of every task.
    """

    def __init__(self, logs: Sequence[TuningLog]) -> None:
        self.log_count = len(logs)
        by_key: dict[str, list[TaskInLog]] = {}
        for index, log in enumerate(logs):
            for key, task in log.tasks.items():
                by_key.setdefault(key, []).append(TaskInLog(index, log.label, task))
        self.tasks = [
            TaskInLogs(number, in_logs) for number, in_logs in enumerate(by_key.values(), start=1)
        ]
        known = list(_journal_operators([log.runs.operators for log in logs], self.tasks))
        numbers = {task.number for operator in known for task in operator.implementations}
        self.has_counts = len(numbers) == len(self.tasks)
        self.operators = [
            *known,
            *(Operator([task], {}) for task in self.tasks if task.number not in numbers),
        ]
        self.operators.sort(key=lambda operator: (operator.seconds == math.inf, -operator.seconds))
        # of the network that each log was tuned for last, the operators without a trial
        self._untried = [
            sum(
                {task.journal_key for task in log.tasks.values()}.isdisjoint(keys)
                for keys in (log.runs.networks or [log.runs.operators])[-1]
            )
            for log in logs
        ]

    def operators_in(self, index: int) -> list[Operator]:
        """The operators that a log has trials of."""
        return [operator for operator in self.operators if operator.tasks_in(index)]

    def count_unsolved(self, index: int) -> int:
        """Number of operators without a successful trial in a log, including those that only its
        journal mentions.
        """
        return self._untried[index] + sum(
            operator.seconds_in(index) == math.inf for operator in self.operators_in(index)
        )

    def seconds_in(self, index: int) -> float:
        """Total time in seconds of the operators with a successful trial in a log, with the best
        configurations there.
        """
        return math.fsum(
            seconds
            for operator in self.operators
            if (seconds := operator.seconds_in(index)) < math.inf
        )

    def best_so_far(self, index: int) -> Array:
        """Total time of a log's operators after each of its trials, in order of time, or of the log
        where that is unknown.

        Returns
        -------
        array of float
            Seconds for each trial, infinite until every operator has a successful one. Empty if one
            never has.
        """
        operators = self.operators_in(index)
        implementations = [operator.tasks_in(index) for operator in operators]
        tasks_of_log = [task for tasks in implementations for task in tasks]
        timed = all(np.isfinite(task.times).all() for task in tasks_of_log)
        orders = [task.times if timed else task.positions for task in tasks_of_log]
        ended = np.concatenate([np.empty(0), *orders])
        if self.count_unsolved(index):
            return np.empty(0)
        rank = np.empty(len(ended), int)
        rank[np.argsort(ended, kind="stable")] = np.arange(len(ended))
        ranks = iter(np.split(rank, np.cumsum([len(order) for order in orders])[:-1]))
        total = np.zeros(len(ended))
        for operator, tasks in zip(operators, implementations):
            latencies = np.full(len(ended), math.inf)
            for task in tasks:
                latencies[next(ranks)] = operator.count_in(index) * task.latencies
            total += np.minimum.accumulate(latencies)
        return total


def _journal_operators(
    by_log: Sequence[Mapping[tuple[str, ...], int]], tasks: Sequence[TaskInLogs]
) -> Iterator[Operator]:
    """The operators that the logs' journals mention, with those of their tasks that have trials."""
    for keys in _merge_overlapping(
        [set(operator) for operators in by_log for operator in operators]
    ):
        counts = {
            index: count
            for index, operators in enumerate(by_log)
            for operator, count in operators.items()
            if keys.issuperset(operator)
        }
        by_target: dict[str, list[TaskInLogs]] = {}  # journal keys may leave out the target
        for task in tasks:
            if task.example.journal_key in keys:
                by_target.setdefault(task.example.target, []).append(task)
        for implementations in by_target.values():
            yield Operator(sorted(implementations, key=lambda task: task.latency), counts)


def _merge_overlapping(sets: Sequence[set[str]]) -> list[set[str]]:
    """Merge sets that share an element: journals of different logs may know different
    implementations of an operator.

    >>> [sorted(merged) for merged in _merge_overlapping([{"a", "b"}, {"c"}, {"b", "d"}])]
    [['c'], ['a', 'b', 'd']]
    """
    merged: list[set[str]] = []
    for new in sets:
        disjoint = [other for other in merged if not other & new]
        merged = [*disjoint, new.union(*(other for other in merged if other & new))]
    return merged
