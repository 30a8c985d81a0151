"""One call of ``tune_network``, whichever TVM measures: budget, progress, journal and result. Imports no TVM."""

from __future__ import annotations

import logging
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import inf
from pathlib import Path
from typing import Protocol

from autotvm_opevo._utils.command_line import command_line
from autotvm_opevo._utils.cpu_cores import warn_of_idle_cores
from autotvm_opevo._utils.text import last_line, pluralize
from autotvm_opevo.tuning.comparison import Comparison
from autotvm_opevo.tuning.journal import (
    Journal,
    MachineMeasured,
    MeasuringBegan,
    NetworkCompared,
    RunEnded,
    RunStarted,
)
from autotvm_opevo.tuning.progress import ProgressDisplay, Row
from autotvm_opevo.tuning.result import TuningResult
from autotvm_opevo.tuning.roofline import Roofline, Work
from autotvm_opevo.tuning.task_scheduler import Operator, TaskProgress, network_latency, shares

logger = logging.getLogger(__name__)


class TaskStatus(Protocol):
    """One task's state, which its adapter keeps up to date."""

    @property
    def name(self) -> str:
        """In tables."""

    @property
    def key(self) -> str:
        """In the journal."""

    @property
    def progress(self) -> TaskProgress:
        """Its trials and FLOP."""

    @property
    def latency(self) -> float:
        """Best latency in seconds; infinite while no trial has succeeded."""

    @property
    def failures(self) -> Counter[str]:
        """Number of failed trials by the kind of error."""

    @property
    def dominant_error(self) -> str:
        """The most common error while all trials fail; empty otherwise."""


class Session:
    """Tasks that share a budget of trials.

    Parameters
    ----------
    tasks : sequence of TaskStatus
        With the trials of earlier calls, as far as the log has them.
    operators : sequence of Operator
    budget : int
        Number of trials, those of earlier calls included.
    log_file : Path
        AutoTVM's log, or MetaSchedule's work directory.
    journal : Journal
    start : float
        When the call began, by ``time.monotonic()``.

    Attributes
    ----------
    stop_reason : str
        As in `TuningResult`; an adapter sets it, unless an exception ends the call.
    display : ProgressDisplay
    phases : defaultdict of str to float
        Seconds spent on each phase of the call, as far as known.
    """

    def __init__(
        self,
        tasks: Sequence[TaskStatus],
        operators: Sequence[Operator],
        budget: int,
        log_file: Path,
        journal: Journal,
        start: float,
    ) -> None:
        self._tasks, self._operators = tasks, operators
        self._budget, self._log_file, self._journal = budget, log_file, journal
        self._start = self._end = start
        self._resumed = self.trials
        self._handled = sys.exc_info()[1]  # by the caller: not what ends this call
        self._comparison: Comparison | None = None
        self._comparison_error = ""
        self._threads = 0
        self.stop_reason = "trials"
        self.phases: defaultdict[str, float] = defaultdict(float)
        self.display = ProgressDisplay(budget, self._resumed)

    @property
    def trials(self) -> int:
        """Number of trials, those of earlier calls included."""
        return sum(task.progress.trials for task in self._tasks)

    @property
    def left(self) -> int:
        """Number of trials left of the budget; negative if the log has more."""
        return self._budget - self.trials

    @property
    def succeeded(self) -> bool:
        """Whether any trial has."""
        return any(task.latency < inf for task in self._tasks)

    def announce(self, tuner: str, log: str) -> None:
        """Say what there is to do, before worker processes start, which takes seconds; tell the journal if there is anything."""
        known = f", {self.trials} of them in the {log}" if self.trials else ""
        tasks, trials = pluralize(len(self._tasks), "task"), pluralize(self._budget, "trial")
        self.display.write(f"{tasks}, {trials}{known}" + ("; starting to measure" if self.left > 0 else ""))
        if self.left > 0:
            operators = [(one.count, [self._tasks[i].key for i in one.tasks]) for one in self._operators]
            flop = {task.key: task.progress.flop for task in self._tasks}
            names = {task.key: task.name for task in self._tasks}
            self._journal.write(
                RunStarted(operators=operators, tuner=tuner, command=command_line(), budget=self._budget, flop=flop, names=names)
            )

    def measure_limits(
        self, measure: Callable[[], Roofline], work: Callable[[int], Work], cannot_run: Callable[[], ValueError]
    ) -> Roofline | None:
        """Measure the roofline and set the limits by it; None if it cannot be measured. Warn if TVM leaves cores idle.

        `cannot_run` makes the error that is raised if the worker process dies of a first kernel.
        """
        try:
            roofline = measure()
        except ChildProcessError as error:  # of an instruction that the CPU does not have, for one
            raise cannot_run() from error
        except (OSError, RuntimeError, ValueError) as error:
            logger.warning("the roofline of this machine is unknown: %s", last_line(str(error)))
            return None
        self.set_limits(roofline, work)
        self._threads = roofline.threads
        warn_of_idle_cores(roofline.threads)
        return roofline

    def begin_measuring(self) -> None:
        """What precedes the first trial is done; tell the journal."""
        self.phases["starting"] = time.monotonic() - self._start
        self._journal.write(MeasuringBegan())

    def by_share(self) -> list[int]:
        """The tasks' positions, the largest share of the network's latency first."""
        parts = shares(self._operators, [task.latency for task in self._tasks])
        return sorted(range(len(parts)), key=lambda i: -parts[i])

    def set_limits(self, roofline: Roofline, work: Callable[[int], Work]) -> None:
        """Set how fast each task can be at most, given its work by its index; tell the journal."""
        limits, sizes, memory_bound = {}, {}, []
        for i, task in enumerate(self._tasks):
            flop, sizes[task.key] = work(i)
            task.progress.limit = limits[task.key] = roofline.latency(flop, sizes[task.key])
            if 0 < task.progress.limit == roofline.latency(0.0, sizes[task.key]):
                memory_bound.append(task.key)
        self._journal.write(
            MachineMeasured(
                limits=limits,
                memory_bound=memory_bound,
                sizes=sizes,
                flops=roofline.flops if roofline.flops < inf else 0.0,
                memory_bandwidth=roofline.memory_bandwidth,
                bandwidth=roofline.bandwidth,
                threads=roofline.threads,
            )
        )

    def show(self, current: int, end_of_round: bool = True) -> None:
        """Display progress after a batch of task `current`."""
        self._end = time.monotonic()
        self.display.show(self._rows(), current, self._latency(), end_of_round)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count the seconds spent within."""
        begin = time.monotonic()
        try:
            yield
        finally:
            self.phases[name] += time.monotonic() - begin

    def end(self, phases: Mapping[str, float], rest: str) -> None:
        """End the measurements, given the seconds of further phases, and what happens in the rest of the time."""
        self._end = time.monotonic()
        if (error := sys.exc_info()[1]) and error is not self._handled:
            self.stop_reason = _stop_reason(error)
        self.phases.update(phases)
        self.phases[rest] = max(0.0, self._end - self._start - sum(self.phases.values()))
        learned_from = {task: dict(counts) for task, counts in self.learned_from().items() if counts}
        self._journal.write(RunEnded(phases=self.phases, stop_reason=self.stop_reason, learned_from=learned_from))

    def learned_from(self) -> Mapping[str, Mapping[str, int]]:
        """By the journal's key of a task: how many other tasks it learned from, by their origin."""
        return {}

    def evaluate(self, compare: Callable[[], Comparison]) -> None:
        """Compare the network before and after. An error here must not cost the user the result of hours of tuning."""
        try:
            self._comparison = compare()
            if (rounds := self._comparison.rounds).latencies:
                self._journal.write(NetworkCompared.of(rounds))
        except Exception as error:
            self._comparison_error = f"{type(error).__name__}: {last_line(str(error))}"

    def abort(self, error: BaseException) -> None:
        """Print the result so far, when an exception ends the call."""
        self.stop_reason = _stop_reason(error)
        self.display.write(str(self.result()))

    def result(self) -> TuningResult:
        """The result so far."""
        return TuningResult(
            rows=self._rows(),
            latency=self._latency(),
            trials=self.trials,
            measured=self.trials - self._resumed,
            seconds=self._end - self._start,
            stop_reason=self.stop_reason,
            log_file=self._log_file,
            comparison=self._comparison,
            comparison_error=self._comparison_error,
            limit=self._limit(),
            phases=dict(self.phases),
            threads=self._threads,
        )

    def _latency(self) -> float:
        return network_latency(self._operators, [task.latency for task in self._tasks])

    def _limit(self) -> float:
        """Latency of the network if every tuned operator were at its limit; 0 if one's is unknown."""
        seconds = 0.0
        for operator in self._operators:
            fastest = min((self._tasks[i] for i in operator.tasks), key=lambda task: task.latency)
            if fastest.latency < inf:
                if not fastest.progress.limit:
                    return 0.0
                seconds += operator.count * min(fastest.progress.limit, fastest.latency)
        return seconds

    def _rows(self) -> list[Row]:
        parts = shares(self._operators, [task.latency for task in self._tasks])
        return [
            Row(
                name=task.name,
                trials=task.progress.trials,
                latency=task.latency,
                gflops=task.progress.flop / task.latency / 1e9,
                share=share,
                failures=", ".join(f"{kind} {count}" for kind, count in task.failures.most_common()),
                dominant_error=task.dominant_error,
                limit=task.progress.limit,
            )
            for task, share in zip(self._tasks, parts)
        ]


def _stop_reason(error: BaseException) -> str:
    return "interrupted" if isinstance(error, KeyboardInterrupt) else type(error).__name__
