"""One log: its tasks, the operators of the network that they belong to, its runs, and its time."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from autotvm_opevo._utils import jsonl
from autotvm_opevo._utils.text import printable
from autotvm_opevo.reporting.trials import UNKNOWN_FAILURE, Array, Task, TaskId, Trial
from autotvm_opevo.tuning.logs import is_best
from autotvm_opevo.tuning.run_log import Event, Network, Runs, TrialEnded

# What parsers raise for what is no trial.
_NO_TRIAL = ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError
# Longer gaps are pauses: a batch of 64 builds and runs that all time out takes half an hour.
_LONGEST_BATCH = 3600.0
# Shorter pauses are not reported.
_SHORTEST_PAUSE = 60.0


@dataclass(frozen=True, eq=False)
class Operator:
    """One operator of a log's network: how often the network runs it, and the tasks that compute
    it, fastest first, since TVM may have several templates for it. Times are in seconds for all its
    runs, and infinite if all trials failed.
    """

    count: int
    tasks: list[Task]

    @property
    def fastest(self) -> Task:
        """The task that the network uses."""
        return self.tasks[0]

    @property
    def name(self) -> str:
        """Name of the fastest task, with the number of runs if that is not 1."""
        return self.fastest.name if self.count == 1 else f"{self.count} times {self.fastest.name}"

    @property
    def seconds(self) -> float:
        """Time with the best configuration."""
        return self.count * self.fastest.latency

    @property
    def first_seconds(self) -> float:
        """Time with the first successful configuration of the fastest task."""
        successes = (trial.latency for trial in self.fastest.trials if not trial.failure)
        return self.count * next(successes, math.inf)


class TuningLog:
    """All tasks of one log: its name in the report, the file or the folder of a database, and its
    position there.
    """

    def __init__(self, label: str, path: Path = Path(), index: int = 0) -> None:
        self.label, self.path, self.index = label, path, index
        self.tasks: dict[str, Task] = {}  # by key, in order of their first trials
        # lines that are not JSON, and those that are but hold no trial
        self.malformed = self.unrelated = 0
        self.runs = Runs()
        # Slowest first; those without a successful trial are last. A task in no run log is one by
        # itself.
        self.operators: list[Operator] = []
        self.has_counts = False  # of the runs of every task, which a run log has
        # Seconds of tuning, without pauses, until the end of each trial; empty if some timestamps
        # are unknown.
        self.elapsed: Array = np.empty(0)
        self.pauses: list[float] = []  # seconds of each, between runs
        self._order: list[Task] = []  # the task of each trial
        self._values: dict[Hashable, Any] = {}  # each in memory once

    def read(
        self, lines: Iterable[bytes], parse_trial: Callable[[Any], tuple[TaskId, Trial]]
    ) -> None:
        """Add the trial of each line; count the lines that have none."""
        for _, value in jsonl.read(lines):
            if value is jsonl.MALFORMED:
                self.malformed += 1
                continue
            try:
                task_id, trial = parse_trial(value)
                knobs = {name: self._values.setdefault(v, v) for name, v in trial.knobs.items()}
            except _NO_TRIAL:
                self.unrelated += 1
                continue
            if task_id.key not in self.tasks:
                self.tasks[task_id.key] = Task(task_id)
            task = self.tasks[task_id.key]
            # of the last one, which the run with the run log may have added
            task.run_log_key = task_id.run_log_key
            task.trials.append(trial._replace(knobs=knobs))
            self._order.append(task)

    def merge_run_log(self, events: Iterable[Event]) -> None:
        """Add what a run log knows, and compute times. Call once, after all trials are added."""
        events, runs = list(events), self.runs
        runs.replay(events)
        runs.tuners, runs.command = list(map(printable, runs.tuners)), printable(runs.command)
        runs.phases = {printable(phase): seconds for phase, seconds in runs.phases.items()}
        ended: defaultdict[str, list[TrialEnded]] = defaultdict(list)
        for event in events:
            if isinstance(event, TrialEnded):
                ended[event.task].append(event)
        # a key may leave out the target
        targets = Counter(task.run_log_key for task in self.tasks.values())
        for task in self.tasks.values():
            task.name = printable(runs.names.get(task.run_log_key, task.name))
            _merge_events(task, ended[task.run_log_key], len(runs.starts))
            if targets[task.run_log_key] == 1:
                task.last_confirmation = runs.confirmed.get(task.run_log_key)
        self._measure_time()

    def _measure_time(self) -> None:
        """Sort the trials by time and compute the time spent on them, without the pauses between
        runs, if the time of each is known.

        A trial takes the time since the previous one, of whichever task, or since its run started,
        or began to measure: what it takes to start is tuning, but no task's.
        """
        ends = [(trial.time, 2, task) for task, trial in self._trials()]
        if not ends or not all(math.isfinite(time) for time, *_ in ends):
            return
        moments: list[tuple[float, int, Task | None]] = [
            *((time, 0, None) for time in self.runs.starts),
            *((time, 1, None) for time in self.runs.measuring_since),
            *ends,
        ]
        start = ready = previous = -math.inf
        elapsed, overall = 0.0, []
        of_task: dict[str, list[float]] = {key: [] for key in self.tasks}
        self._order = []
        for moment, kind, measured in sorted(moments, key=lambda moment: moment[:2]):
            if measured is None:
                start, ready = (moment, moment) if kind == 0 else (start, moment)
                continue
            since = max(previous, start)
            pause, gap, own = since - previous, moment - since, moment - max(since, ready)
            if gap > _LONGEST_BATCH and start <= previous:
                pause, gap, own = gap, 0.0, 0.0
            if previous > -math.inf and pause >= _SHORTEST_PAUSE:
                self.pauses.append(pause)
            previous, elapsed = moment, elapsed + gap
            spent = of_task[measured.key]
            spent.append(own + (spent[-1] if spent else 0.0))
            overall.append(elapsed)
            self._order.append(measured)
        self.elapsed = np.array(overall)
        for task in self.tasks.values():
            task.trials.sort(key=lambda trial: trial.time)
            task.elapsed = np.array(of_task[task.key])

    def find_operators(self, networks: Sequence[Network]) -> None:
        """Group the tasks by operator, which counts as often as all networks run it."""
        left, operators = dict(self.tasks), []
        counts: Counter[tuple[str, ...]] = sum(map(Counter, networks), Counter())
        last = {keys: count for network in networks for keys, count in network.items()}
        for keys in counts:
            # run log keys may leave out the target
            by_target: defaultdict[str, list[Task]] = defaultdict(list)
            for key, task in list(left.items()):
                if task.run_log_key in keys:
                    by_target[task.target].append(left.pop(key))
            # two networks may be one, lowered for two targets
            count = (counts if len(by_target) == 1 else last)[keys]
            for tasks in by_target.values():
                operators.append(Operator(count, sorted(tasks, key=lambda task: task.latency)))
        self.has_counts = not left
        operators += [Operator(1, [task]) for task in left.values()]
        self.operators = sorted(operators, key=lambda op: (op.seconds == math.inf, -op.seconds))

    def __len__(self) -> int:
        return len(self._order)

    @property
    def has_best_only(self) -> bool:
        """Whether it holds the best of another log, and is none of a run's own."""
        return is_best(self.path) and not self.runs.starts

    @property
    def has_phases(self) -> bool:
        """Whether every run told its phases: one that was killed did not."""
        return bool(self.runs.phases) and len(self.runs.starts) <= self.runs.runs_ended

    @property
    def duration(self) -> float:
        """Seconds of all runs, as far as they are known."""
        if self.has_phases:
            return math.fsum(self.runs.phases.values())
        return float(self.elapsed[-1]) if len(self.elapsed) else 0.0

    @property
    def solved(self) -> list[Operator]:
        """The operators with a successful trial."""
        return [operator for operator in self.operators if operator.seconds < math.inf]

    @property
    def seconds(self) -> float:
        """Total time of the operators with a successful trial."""
        return math.fsum(operator.seconds for operator in self.solved)

    @property
    def unsolved(self) -> int:
        """Number of operators without a successful trial, including the last network's untried."""
        tried = {task.run_log_key for task in self.tasks.values()}
        last_network = self.runs.networks[-1] if self.runs.networks else {}
        untried = sum(tried.isdisjoint(keys) for keys in last_network)
        return untried + len(self.operators) - len(self.solved)

    @property
    def best_so_far(self) -> Array:
        """Total time of all operators after each trial in seconds, infinite until every operator
        has a successful one; empty if one never has.
        """
        if self.unsolved:
            return np.empty(0)
        rows = {task.key: i for i, operator in enumerate(self.operators) for task in operator.tasks}
        best, total = np.full(len(self.operators), math.inf), []
        for task, trial in self._trials():
            i = rows[task.key]
            best[i] = min(best[i], self.operators[i].count * trial.latency)
            total.append(best.sum())
        return np.array(total)

    def _trials(self) -> Iterator[tuple[Task, Trial]]:
        """All trials, with their tasks."""
        trials = {key: iter(task.trials) for key, task in self.tasks.items()}
        return ((task, next(trials[task.key])) for task in self._order)


def _merge_events(task: Task, events: list[TrialEnded], runs: int) -> None:
    """Add error messages and, if the events cover all trials, what a database lacks: timestamps and
    failures. Each run that was killed may lack its last event, and those that follow are a trial
    too early; one more is of a trial that has just ended.
    """
    lacks_times = not all(math.isfinite(trial.time) for trial in task.trials)
    if lacks_times and events and -1 <= len(task) - len(events) <= runs:
        for i, (trial, event) in enumerate(zip(task.trials, [*events, *events[-1:] * runs])):
            failure = trial.failure and printable(event.failure or trial.failure)
            task.trials[i] = trial._replace(time=event.time, failure=failure)
    for event in events:
        if event.message:
            kind = printable(event.failure) or UNKNOWN_FAILURE
            task.messages.setdefault(kind, Counter())[printable(event.message)] += 1
