"""One call of ``tune_network``, the same for both TVMs: choose a task, propose, measure, store,
until trials, time or spaces end.

Imports no TVM: tasks, measurer and where trials are stored are the adapter's.
"""

from __future__ import annotations

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from math import inf
from statistics import median
from typing import Any

import numpy as np

from autotvm_opevo._utils.cpu_cores import warn_of_thread_mismatch
from autotvm_opevo._utils.text import command_line, last_line, pluralize
from autotvm_opevo._utils.timeouts import say_if_long
from autotvm_opevo._utils.validation import as_integer, as_seconds
from autotvm_opevo.tuning.comparison import Comparison, reason_of
from autotvm_opevo.tuning.measurer import Measurer
from autotvm_opevo.tuning.race import confirm
from autotvm_opevo.tuning.result import EXHAUSTED, UNLIMITED, ProgressDisplay, Row, TuningResult
from autotvm_opevo.tuning.roofline import MAX_UNKNOWN, Roofline, Work
from autotvm_opevo.tuning.run_log import (
    BestConfirmed,
    MachineMeasured,
    MeasuringBegan,
    NetworkCompared,
    OutputsDiffered,
    RunEnded,
    RunStarted,
)
from autotvm_opevo.tuning.task_scheduler import (
    Operator,
    TaskScheduler,
    choose,
    network_latency,
    round_size,
    shares,
)
from autotvm_opevo.tuning.task_state import TaskState, TrialStore

logger = logging.getLogger(__name__)

# Largest share of the duration of a run for timing the best trials again.
CONFIRMATION_SHARE = 0.03


class Budget:
    """What a call may spend, from now on: trials, those of earlier calls included, and seconds to
    the end of the confirmation.

    `start` and `deadline` are when it begins, and when it begins no more trials, by
    ``time.monotonic()``.
    """

    def __init__(self, trials: int, time_limit: float | None = None) -> None:
        self.start, self.deadline = time.monotonic(), inf
        self.trials = as_integer("trials", trials)
        if time_limit is not None:
            seconds = as_seconds("time_limit", time_limit)
            seconds = inf if seconds > threading.TIMEOUT_MAX else seconds  # more cannot be waited
            self.deadline = self.start + (1 - CONFIRMATION_SHARE) * seconds


@dataclass
class _Batch:
    """Candidates that a task proposed together, their trials, and how many are unfinished."""

    task: int
    candidates: Sequence[Any]
    left: int
    ends_round: bool
    trials: Sequence[Future[Any]] = ()


class TuningRun(ABC):
    """Tasks, with the trials of earlier calls as far as the log has them, that share a budget of
    trials. A round has at least a `batch` of them, if the budget has that many for every task.
    """

    def __init__(
        self,
        tasks: Sequence[TaskState],
        operators: Sequence[Operator],
        budget: Budget,
        batch: int,
        store: TrialStore,
    ) -> None:
        self._tasks, self._operators, self._budget, self._batch = tasks, operators, budget, batch
        self.store, self._run_log = store, store.run_log
        self._end = budget.start
        self._resumed = self.trials
        if self.left <= 0:  # else they are measured again, where these trials run
            for task in tasks:
                task.bound = self._run_log.runs.bounds.get(task.key, 0.0)
        self._comparison: Comparison | None = None
        self._comparison_error = ""
        self._threads = 0
        # trials of this round that are not submitted, and its task
        self._round_left = self._current = 0
        self._pending: dict[Future[Any], _Batch] = {}  # trials that are being measured
        # by task: latency and record of the best of earlier calls
        self._before: dict[str, tuple[float, Any]] = {}
        self.stop_reason = "trials"
        # Whether the best file has the network untuned, which was faster, or the only one that is
        # right. It stays so until more is measured, or it is compared again.
        self.untuned = False
        self.phases: defaultdict[str, float] = defaultdict(float)  # seconds, as far as known
        self.display = ProgressDisplay(budget.trials, self._resumed)

    @property
    def trials(self) -> int:
        """Number of trials, those of earlier calls included."""
        return sum(task.progress.trials for task in self._tasks)

    @property
    def left(self) -> int:
        """Number of trials left; negative if the log has more."""
        return self._budget.trials - self.trials

    @property
    def succeeded(self) -> bool:
        """Whether any trial has."""
        return any(task.latency < inf for task in self._tasks)

    def announce(self, tuner: str, log: str, notes: Iterable[str]) -> None:
        """Say what there is to do before worker processes start, which takes seconds."""
        tasks, trials = pluralize(len(self._tasks), "task"), pluralize(self._budget.trials, "trial")
        what, known = f"{tasks}, {trials}", f"{self.trials} of them"
        if self._budget.trials == UNLIMITED:
            what, known = tasks, pluralize(self.trials, "trial")
        what += f", {known} in the {log}" if self.trials else ""
        self.display.write(what + ("; starting to measure" if self.left > 0 else ""))
        if self.left > 0:
            keys = [task.key for task in self._tasks]
            event = RunStarted(
                operators=[(o.count, [keys[i] for i in o.tasks]) for o in self._operators],
                tuner=tuner,
                command=command_line(),
                budget=self._budget.trials,
                flop=dict(zip(keys, (task.progress.flop for task in self._tasks))),
                names=dict(zip(keys, (task.name for task in self._tasks))),
            )
            self._run_log.write(event)
        for note in notes:
            self.display.write(note)

    def run(
        self,
        open_measurer: Callable[[], Measurer],
        task_scheduler: TaskScheduler,
        rng: np.random.Generator,
        compare: Callable[[], Comparison] | None,
    ) -> TuningResult:
        """Spend the budget, confirm the best trials, write the best file, and compare the network
        before and after if a trial succeeded.

        However this ends, every trial that was measured is in the store, all worker processes have
        ended, and the best file is written. After Ctrl-C, or any other error but one of the
        confirmation or the comparison, the result so far is printed before the error is raised.
        """
        try:
            if self.left > 0:
                self._task_scheduler, self._rng = task_scheduler, rng
                with open_measurer() as self._measurer:
                    self._measure_machine()
                    self._measure_and_confirm()
            self._conclude()
            self.write_best()
            if compare is not None and self.succeeded:
                self._compare(compare)
        except BaseException as error:
            self.stop_reason = reason_of(error)
            with suppress(Exception):  # a full disk must not hide the error
                self.write_best()
            self.display.write(str(self.result()))
            raise
        return self.result()

    @abstractmethod
    def _measure_machine(self) -> None:
        """Find out how fast the tasks can be at most, as far as that is possible."""

    def _conclude(self) -> None:  # noqa: B027 optional
        """What else to do once the trials are made, unless an error ended them."""

    @abstractmethod
    def write_best(self) -> None:
        """Write the best file, with what is known now."""

    def _measure_bounds(
        self,
        measure: Callable[[], Roofline],
        work: Callable[[Any], Work],
        cannot_run: Callable[[], ValueError],
    ) -> None:
        """Measure the roofline, if possible, and set how fast each task can be at most, given its
        work. `cannot_run` makes the error if the worker process dies of it.
        """
        try:
            with say_if_long("measuring how fast this machine is"):
                roofline = measure()
        except ChildProcessError as error:  # of an instruction that the CPU does not have, for one
            raise cannot_run() from error
        except (OSError, RuntimeError, ValueError) as error:
            logger.warning("the roofline of this machine is unknown: %s", last_line(str(error)))
            return
        bounds, sizes, memory_bound = {}, {}, []
        for task in self._tasks:
            flop, sizes[task.key] = work(task)
            task.bound = bounds[task.key] = roofline.latency(flop, sizes[task.key])
            if 0 < task.bound == roofline.latency(0.0, sizes[task.key]):
                memory_bound.append(task.key)
        self._run_log.write(MachineMeasured(bounds, memory_bound, sizes))
        self._threads = roofline.threads
        warn_of_thread_mismatch(roofline.threads)

    def _measure_and_confirm(self) -> None:
        """Begin trials until the deadline, and confirm the best when all have ended."""
        now, deadline = time.monotonic(), self._budget.deadline
        self.phases["starting"] = now - self._budget.start
        self._before = {task.key: (task.latency, task.best) for task in self._tasks}
        self._run_log.write(MeasuringBegan())
        try:
            left = deadline - now if deadline < inf else None
            with ProgressDisplay(self._budget.trials, self.trials, left) as self.display:
                self._measure(deadline)
            with self.phase("re-measuring"), say_if_long("re-measuring the best"):
                self._confirm()
        except BaseException as error:
            self.stop_reason = reason_of(error)
            with suppress(Exception):  # the first error counts
                for batch, trial in list(self._measured()):  # none that fails by what ends the run
                    self.store.append(self._tasks[batch.task], trial)
            raise
        finally:
            self._end_measuring()

    def _measure(self, deadline: float) -> None:
        while True:
            late = time.monotonic() >= deadline
            if late:
                self._measurer.cancel()
                for trial in [trial for trial in self._pending if trial.cancelled()]:
                    del self._pending[trial]
                if self.left > 0 and self.stop_reason == "trials":
                    self.stop_reason = "time limit"
            submitted = not late and self._measurer.has_capacity and self._submit()
            if not self._pending:
                return
            self._receive(0.0 if submitted else inf if late else deadline - time.monotonic())

    def _submit(self) -> bool:
        """Submit a batch of the round's task; False if there is nothing to submit for now."""
        with self._measurer.exclusive():
            with self.phase("searching"):
                batch = self._propose()
            if batch is None:
                return False
            batch.trials = self._measurer.submit(self._tasks[batch.task].task, batch.candidates)
        self._pending.update(dict.fromkeys(batch.trials, batch))
        return True

    def _propose(self) -> _Batch | None:
        """A batch of the round's task, or of the next round's; None if there is none for now."""
        progress = [task.progress for task in self._tasks]
        begun = sum(task.begun for task in progress)
        left = self._budget.trials - begun
        if left <= 0:
            return None
        while any(task.active for task in progress):
            if self._round_left == 0:
                self._current, most = choose(
                    self._task_scheduler, progress, self._operators, left, self._rng
                )
                size = round_size(begun, self._budget.trials, len(progress), self._batch)
                if not progress[self._current].begun:
                    size = min(size, progress[self._current].first_round)
                self._round_left = min(size, most)
            task = self._tasks[self._current]
            if not task.can_propose or self._measurer.is_ahead(task.progress):
                return None
            size = min(self._measurer.batch, self._round_left, left)
            if candidates := task.propose(size, self._tasks):
                self._round_left = max(0, self._round_left - len(candidates))
                return _Batch(self._current, candidates, len(candidates), self._round_left == 0)
            self._round_left = 0
            if task.progress.pending == 0:
                task.end_round()
        self.stop_reason = EXHAUSTED
        return None

    def _measured(self) -> Iterator[tuple[_Batch, Any]]:
        """Iterate over the trials that have been measured since, each with its batch."""
        for trial in list(self._pending):
            if trial.done() and not trial.cancelled() and trial.exception() is None:
                yield self._pending.pop(trial), trial.result()

    def _receive(self, seconds: float) -> None:
        """Wait until a trial is measured, or for `seconds`; raise an error once all have failed."""
        timeout = None if seconds == inf else max(0.0, seconds)
        done, _ = wait(self._pending, timeout, FIRST_COMPLETED)
        if done and all(trial.cancelled() or trial.exception() for trial in done):
            done.pop().result()
        for batch, trial in self._measured():
            self._keep(batch, trial)

    def _keep(self, batch: _Batch, trial: Any) -> None:
        """Keep a trial; its task gets to know when all of its batch are there."""
        task = self._tasks[batch.task]
        self.store.append(task, trial)
        task.add(trial)
        self.untuned = False
        batch.left -= 1
        if batch.left > 0:
            return
        with self._measurer.exclusive(), self.phase("searching"):
            task.finish([trial.result() for trial in batch.trials])
        if ends_round := batch.ends_round or not task.progress.active:
            task.end_round()
        self.display.show(self._rows(), batch.task, self._latency(), ends_round)

    def _confirm(self) -> None:
        """Time the best trials of each task again, the largest share of the network's latency
        first. An error here must not cost the user the result of hours of tuning.
        """
        parts = shares(self._operators, [task.latency for task in self._tasks])
        tasks = [self._tasks[i] for i in sorted(range(len(parts)), key=lambda i: -parts[i])]
        finalists = [self._measurer.finalists.of(task.key) for task in tasks]
        for task, fastest in zip(tasks, finalists):
            if fastest and fastest[0].seconds > task.latency:
                fastest.clear()  # the best is of an earlier call, and not there to race
        seconds = CONFIRMATION_SHARE * (time.monotonic() - self._budget.start)
        try:
            for i, race in confirm(finalists, self._measurer, seconds):
                task, latencies, ties = tasks[i], race.seconds(race.fastest), len(race.racing) - 1
                best = finalists[i][race.fastest].trial
                latency_before, best_before = self._before[task.key]
                earlier = self._run_log.runs.confirmed.get(task.key)
                # what was not timed again may have been lucky
                if earlier and earlier.latency == latency_before < median(latencies):
                    best, latencies, ties = best_before, earlier.latencies, earlier.ties
                record = self._use_confirmed(task, best, median(latencies))
                self._run_log.write(BestConfirmed(task.key, record, latencies, ties))
        except Exception as error:
            logger.warning("the best trials were not re-measured: %s", last_line(str(error)))

    @abstractmethod
    def _use_confirmed(self, task: Any, best: Any, latency: float) -> str:
        """Take a trial of this call, or the record before it, as the best; returns its record."""

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count the seconds spent within."""
        begin = time.monotonic()
        try:
            yield
        finally:
            self.phases[name] += time.monotonic() - begin

    def _end_measuring(self) -> None:
        """Tell the run log why the measurements end, and where the time went."""
        self._end = time.monotonic()
        # unknown which, with a builder or runner that is not this package's
        rest = "building and running"
        if self._measurer.seconds_running:
            self.phases["running"], rest = self._measurer.seconds_running, "building"
        self.phases[rest] = max(0.0, self._end - self._budget.start - sum(self.phases.values()))
        self._run_log.write(RunEnded(self.phases, self.stop_reason))

    def _compare(self, compare: Callable[[], Comparison]) -> None:
        """Compare before and after; an error here must not cost the result of hours of tuning."""
        untuned_is_better, self.untuned = self.untuned, False
        if untuned_is_better:
            self.write_best()  # the tuned network, which is compared
        try:
            self.display.write("building the network untuned and tuned, and timing both")
            self._comparison = compare()
            if not self._comparison.outputs_match:
                self._run_log.write(OutputsDiffered())
            elif (race := self._comparison.race).latencies:
                self._run_log.write(NetworkCompared.of(race))
            untuned_is_better = self._comparison.untuned_is_better
        except Exception as error:
            self._comparison_error = f"{type(error).__name__}: {last_line(str(error))}"
        finally:
            self.untuned = untuned_is_better
        if self.untuned:
            self.write_best()

    def result(self) -> TuningResult:
        """The result so far."""
        latency = self._latency()
        bound = unknown = 0.0
        for operator in self._operators:
            task = min((self._tasks[i] for i in operator.tasks), key=lambda task: task.latency)
            if task.latency < inf:
                bound += operator.count * min(task.bound or inf, task.latency)
                unknown += operator.count * task.latency if not task.bound else 0.0
        return TuningResult(
            rows=self._rows(),
            latency=latency,
            trials=self.trials,
            measured=self.trials - self._resumed,
            seconds=self._end - self._budget.start,
            stop_reason=self.stop_reason,
            log_file=self.store.path,
            comparison=self._comparison,
            comparison_error=self._comparison_error,
            bound=bound if unknown <= MAX_UNKNOWN * latency else 0.0,
            phases=dict(self.phases),
            threads=self._threads,
        )

    def _latency(self) -> float:
        return network_latency(self._operators, [task.latency for task in self._tasks])

    def _rows(self) -> list[Row]:
        parts = shares(self._operators, [task.latency for task in self._tasks])
        return [
            Row(
                name=task.name,
                trials=task.progress.trials,
                latency=task.latency,
                gflops=task.progress.flop / task.latency / 1e9,
                share=share,
                failures=", ".join(f"{kind} {n}" for kind, n in task.failures.most_common()),
                dominant_error=task.dominant_error,
                bound=task.bound,
            )
            for task, share in zip(self._tasks, parts)
        ]
