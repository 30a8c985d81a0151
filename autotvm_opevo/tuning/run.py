"""One call of ``tune_network``, the same for both TVMs: choose a task, propose, measure, store,
until trials, time or spaces end.

Imports no TVM: tasks, measurer and where trials are stored are the adapter's.
"""

from __future__ import annotations

import logging
import sys
import time
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from math import inf
from statistics import median
from typing import Any

import numpy as np

from autotvm_opevo._utils.command_line import command_line
from autotvm_opevo._utils.cpu_cores import warn_of_idle_cores
from autotvm_opevo._utils.text import last_line, pluralize
from autotvm_opevo._utils.timeouts import say_if_long
from autotvm_opevo.tuning.comparison import Comparison
from autotvm_opevo.tuning.finalists import Finalist
from autotvm_opevo.tuning.journal import (
    BestConfirmed,
    MachineMeasured,
    MeasuringBegan,
    NetworkCompared,
    RunEnded,
    RunStarted,
)
from autotvm_opevo.tuning.measurer import Measurer
from autotvm_opevo.tuning.progress import ProgressDisplay, Row
from autotvm_opevo.tuning.race import confirm
from autotvm_opevo.tuning.result import EXHAUSTED, TuningResult
from autotvm_opevo.tuning.roofline import Roofline, Work
from autotvm_opevo.tuning.store import TrialStore
from autotvm_opevo.tuning.task_scheduler import (
    Operator,
    TaskScheduler,
    choose,
    most_trials,
    network_latency,
    round_size,
    shares,
)
from autotvm_opevo.tuning.task_state import TaskState

logger = logging.getLogger(__name__)

# Largest share of the duration of a run for timing the best trials again.
CONFIRMATION_SHARE = 0.03


def end_of_trials(start: float, time_limit: float | None) -> float:
    """When no further trial is started, so that the confirmation is within the time limit, too.

    >>> end_of_trials(100.0, 600.0), end_of_trials(100.0, None)
    (682.0, inf)
    """
    return inf if time_limit is None else start + (1 - CONFIRMATION_SHARE) * time_limit


@dataclass
class _Batch:
    """A proposal of a task, by position, that is being measured, and how many of its trials are not
    finished.
    """

    task: int
    proposal: Any
    left: int
    ends_round: bool


class TuningRun(ABC):
    """Tasks that share a budget of trials.

    Parameters
    ----------
    tasks : sequence of TaskState
        With the trials of earlier calls, as far as the log has them.
    operators : sequence of Operator
    budget : int
        Number of trials, those of earlier calls included.
    store : TrialStore
    start : float
        When the call began, by ``time.monotonic()``.

    Attributes
    ----------
    store : TrialStore
        As given.
    stop_reason : str
        As in `TuningResult`.
    display : ProgressDisplay
    phases : defaultdict of str to float
        Seconds spent on each phase of the call, as far as known.
    """

    def __init__(
        self,
        tasks: Sequence[TaskState],
        operators: Sequence[Operator],
        budget: int,
        store: TrialStore,
        start: float,
    ) -> None:
        self._tasks, self._operators = tasks, operators
        self._budget, self.store, self._journal = budget, store, store.journal
        self._start = self._end = start
        self._resumed = self.trials
        self._handled = sys.exc_info()[1]  # by the caller: not what ends this call
        self._comparison: Comparison | None = None
        self._comparison_error = ""
        self._threads = 0
        # trials of this round that are not submitted, and its task
        self._round_left = self._current = 0
        self._pending: dict[Future[Any], _Batch] = {}  # trials that are being measured
        # by task: latency and record of the best of earlier calls
        self._before: dict[str, tuple[float, Any]] = {}
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
        """Say what there is to do, before worker processes start, which takes seconds; tell the
        journal if there is anything.
        """
        known = f", {self.trials} of them in the {log}" if self.trials else ""
        tasks, trials = pluralize(len(self._tasks), "task"), pluralize(self._budget, "trial")
        self.display.write(
            f"{tasks}, {trials}{known}" + ("; starting to measure" if self.left > 0 else "")
        )
        if self.left > 0:
            operators = [
                (one.count, [self._tasks[i].key for i in one.tasks]) for one in self._operators
            ]
            flop = {task.key: task.progress.flop for task in self._tasks}
            names = {task.key: task.name for task in self._tasks}
            self._journal.write(
                RunStarted(
                    operators=operators,
                    tuner=tuner,
                    command=command_line(),
                    budget=self._budget,
                    flop=flop,
                    names=names,
                )
            )

    def measure_limits(
        self,
        measure: Callable[[], Roofline],
        work: Callable[[int], Work],
        cannot_run: Callable[[], ValueError],
    ) -> Roofline | None:
        """Measure the roofline and set the limits by it; None if it cannot be measured. Warn if TVM
        leaves cores idle.

        `cannot_run` makes the error that is raised if the worker process dies of a first kernel.
        """
        try:
            with say_if_long("measuring how fast this machine is"):
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

    def run(
        self,
        measurer: Measurer,
        task_scheduler: TaskScheduler,
        rng: np.random.Generator,
        deadline: float,
        batch: int,
    ) -> None:
        """Spend the budget in rounds of at least `batch` trials for one task, until a deadline, and
        confirm the best.
        """
        seconds_left = deadline - time.monotonic() if deadline < inf else None
        self.phases["starting"] = time.monotonic() - self._start
        self._before = {task.key: (task.latency, task.best) for task in self._tasks}
        self._journal.write(MeasuringBegan())
        try:
            with ProgressDisplay(self._budget, self.trials, seconds_left) as self.display:
                self._measure(measurer, task_scheduler, rng, deadline, batch)
            with self.phase("confirming"), say_if_long("timing the best again"):
                self._confirm(measurer)
        except BaseException:
            with suppress(Exception):  # the first error counts
                for one, trial in self._measured():
                    self.store.append(self._tasks[one.task], trial)
            raise
        finally:
            self._end_measuring(measurer)

    def _measure(
        self,
        measurer: Measurer,
        task_scheduler: TaskScheduler,
        rng: np.random.Generator,
        deadline: float,
        batch: int,
    ) -> None:
        while True:
            late = time.monotonic() >= deadline
            if late:
                measurer.cancel()
                self._pending = {
                    trial: one for trial, one in self._pending.items() if not trial.cancelled()
                }
                if self.left > 0 and self.stop_reason == "trials":
                    self.stop_reason = "time limit"
            submitted = (
                not late and measurer.hungry and self._submit(measurer, task_scheduler, rng, batch)
            )
            if not self._pending:
                return
            self._receive(
                measurer, 0.0 if submitted else inf if late else deadline - time.monotonic()
            )

    def _submit(
        self,
        measurer: Measurer,
        task_scheduler: TaskScheduler,
        rng: np.random.Generator,
        batch: int,
    ) -> bool:
        """Submit a batch of the round's task; False if there is nothing to submit for now."""
        with measurer.quiet():
            with self.phase("searching"):
                proposed = self._propose(measurer.batch, task_scheduler, rng, batch)
            if proposed is None:
                return False
            trials = measurer.submit(self._tasks[proposed.task].task, proposed.proposal.candidates)
        self._pending.update(dict.fromkeys(trials, proposed))
        return True

    def _propose(
        self, size: int, task_scheduler: TaskScheduler, rng: np.random.Generator, batch: int
    ) -> _Batch | None:
        """Up to `size` candidates of the round's task; None if there are none for now."""
        progress = [task.progress for task in self._tasks]
        begun = sum(task.begun for task in progress)
        left = self._budget - begun
        if left <= 0:
            return None
        if not any(task.active for task in progress):
            self.stop_reason = EXHAUSTED
            return None
        if self._round_left == 0:
            self._current = choose(task_scheduler, progress, self._operators, left, rng)
            most = min(most_trials(task_scheduler, progress, self._current, left), left)
            self._round_left = self._round(
                self._current, min(round_size(begun, self._budget, len(progress), batch), most)
            )
        task = self._tasks[self._current]
        if not task.can_propose:
            return None
        proposal = task.propose(min(size, self._round_left, left), self._tasks)
        if proposal is None:
            self._round_left = 0
            if task.progress.pending == 0:
                task.end_round()
            return self._propose(size, task_scheduler, rng, batch)
        self._round_left = max(0, self._round_left - len(proposal.candidates))
        return _Batch(self._current, proposal, len(proposal.candidates), self._round_left == 0)

    def _measured(self) -> Iterator[tuple[_Batch, Any]]:
        """Iterate over the trials that have been measured since, each with its batch."""
        for trial in list(self._pending):
            if trial.done() and not trial.cancelled() and trial.exception() is None:
                yield self._pending.pop(trial), trial.result()

    def _receive(self, measurer: Measurer, seconds: float) -> None:
        """Wait until a trial is measured, or for `seconds`; keep all that are, and raise an error
        once there are none.
        """
        done, _ = wait(
            self._pending, None if seconds == inf else max(0.0, seconds), FIRST_COMPLETED
        )
        if done and all(trial.cancelled() or trial.exception() for trial in done):
            done.pop().result()
        for batch, trial in self._measured():
            self._keep(batch, trial, measurer)

    def _keep(self, batch: _Batch, trial: Any, measurer: Measurer) -> None:
        """Keep a trial; its task gets to know when all of a proposal are there."""
        task = self._tasks[batch.task]
        self.store.append(task, trial)
        task.add(trial)
        batch.left -= 1
        if batch.left > 0:
            return
        with measurer.quiet(), self.phase("searching"):
            task.finish(batch.proposal)
        ends_round = batch.ends_round or not task.progress.active
        if ends_round:
            task.end_round()
        self.show(batch.task, ends_round)

    def _round(self, task: int, size: int) -> int:
        """Number of trials of a task's next round, if it would have `size`."""
        return size

    def _confirm(self, measurer: Any) -> None:
        """Time the best trials of each task again. An error here must not cost the user the result
        of hours of tuning.
        """
        tasks = [self._tasks[i] for i in self.by_share()]
        finalists = [self._finalists(measurer, task) for task in tasks]
        try:
            for i, race in confirm(
                finalists, measurer, CONFIRMATION_SHARE * (time.monotonic() - self._start)
            ):
                task, latencies, ties = tasks[i], race.seconds(race.fastest), len(race.racing) - 1
                best, (latency_before, best_before) = (
                    finalists[i][race.fastest].trial,
                    self._before[task.key],
                )
                # of an earlier call: what was built for it is not there to race
                if latency_before < median(latencies):
                    best, latencies, ties = best_before, [latency_before], 0
                record = self._use_confirmed(task, best, median(latencies))
                self._journal.write(BestConfirmed(task.key, record, latencies, ties))
        except Exception as error:
            logger.warning("the best trials were not timed again: %s", last_line(str(error)))

    @abstractmethod
    def _finalists(self, measurer: Any, task: Any) -> list[Finalist]:
        """The best trials of a task; none if the best is of an earlier call, which is not there to
        be timed again.
        """

    @abstractmethod
    def _use_confirmed(self, task: Any, best: Any, latency: float) -> str:
        """Take a trial of this call, or the best record before it, as the task's best, with its
        latency in seconds from now on; returns its record for the journal."""

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

    def _end_measuring(self, measurer: Measurer) -> None:
        """End the measurements; tell the journal why, and where the time went."""
        self._end = time.monotonic()
        if (error := sys.exc_info()[1]) and error is not self._handled:
            self.stop_reason = _stop_reason(error)
        # unknown which, with a builder or runner that is not this package's
        rest = "building and running"
        if measurer.seconds_running:
            self.phases["running"], rest = measurer.seconds_running, "building"
        self.phases[rest] = max(0.0, self._end - self._start - sum(self.phases.values()))
        learned_from = {
            task.key: dict(task.learned_from) for task in self._tasks if task.learned_from
        }
        self._journal.write(
            RunEnded(phases=self.phases, stop_reason=self.stop_reason, learned_from=learned_from)
        )

    def evaluate(self, compare: Callable[[], Comparison]) -> None:
        """Compare the network before and after. An error here must not cost the user the result of
        hours of tuning.
        """
        try:
            self.display.write("building the network untuned and tuned, and timing both")
            self._comparison = compare()
            if (race := self._comparison.race).latencies:
                self._journal.write(NetworkCompared.of(race))
            self._use_untuned(self._comparison.untuned_is_better)
        except Exception as error:
            self._comparison_error = f"{type(error).__name__}: {last_line(str(error))}"

    @abstractmethod
    def _use_untuned(self, is_better: bool) -> None:
        """Let the best file have the network untuned if it is faster, or the only one that is
        right; else the tuned one.
        """

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
            log_file=self.store.path,
            comparison=self._comparison,
            comparison_error=self._comparison_error,
            limit=self._limit(),
            phases=dict(self.phases),
            threads=self._threads,
        )

    def _latency(self) -> float:
        return network_latency(self._operators, [task.latency for task in self._tasks])

    def _limit(self) -> float:
        """Latency of the network if every tuned operator were at its limit; 0 if one's is
        unknown.
        """
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
                failures=", ".join(
                    f"{kind} {count}" for kind, count in task.failures.most_common()
                ),
                dominant_error=task.dominant_error,
                limit=task.progress.limit,
            )
            for task, share in zip(self._tasks, parts)
        ]


def _stop_reason(error: BaseException) -> str:
    return "interrupted" if isinstance(error, KeyboardInterrupt) else type(error).__name__
