"""One call of `tune_network`: batches of one task at a time, into a work directory."""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm.s_tir import meta_schedule as ms
from tvm_ffi import structural_equal

from autotvm_opevo._utils.text import last_line
from autotvm_opevo.meta_schedule.best_database import count_records, latencies_before, restore_best, write_best
from autotvm_opevo.meta_schedule.builder import LocalBuilder
from autotvm_opevo.meta_schedule.callbacks import Failure, ProgressCallback
from autotvm_opevo.meta_schedule.confirmation import confirm
from autotvm_opevo.meta_schedule.database import database_with, latencies, load_database, records_of, repair, seconds
from autotvm_opevo.meta_schedule.interrupts import SigintGuard
from autotvm_opevo.meta_schedule.lowering import count_changes
from autotvm_opevo.meta_schedule.roofline import work
from autotvm_opevo.meta_schedule.runner import LocalRunner
from autotvm_opevo.meta_schedule.strategy import Budget, OpEvoStrategy
from autotvm_opevo.meta_schedule.targets import cannot_run
from autotvm_opevo.meta_schedule.task_scheduler import CallbackScheduler
from autotvm_opevo.meta_schedule.task_state import TaskState
from autotvm_opevo.meta_schedule.tvm_logging import without_nameless_handlers
from autotvm_opevo.tuning.confirmation import CONFIRMATION_SHARE
from autotvm_opevo.tuning.journal import JOURNAL, BestConfirmed, Journal, NetworkLowered, TrialEnded
from autotvm_opevo.tuning.logs import BEST_DATABASE, RECORD_FILE
from autotvm_opevo.tuning.progress import ProgressDisplay
from autotvm_opevo.tuning.result import EXHAUSTED, TuningResult
from autotvm_opevo.tuning.session import Session
from autotvm_opevo.tuning.task_scheduler import Operator, TaskScheduler, choose, most_trials

logger = logging.getLogger(__name__)

# Maximum number of trials in a round, as in TVM; a strategy may propose fewer.
_MAX_ROUND = 64
# A task with a smaller share of the latency, all being at their limits, begins with so few trials.
_SMALL_SHARE, _FEW = 0.01, 2


class NetworkSession(Session):
    """The tasks of a network, measured by MetaSchedule; see `Session`."""

    def __init__(
        self, tasks: Sequence[Any], target: tvm.target.Target, database: Any, folder: Path, trials: int, start: float
    ) -> None:
        self._extracted, self._database, self._folder, self._target = tasks, database, folder, target
        self._best: dict[int, Any] = {}  # by task: confirmed in this call, or the best of an earlier one
        self._best_before: list[Any] = []  # of an earlier call, for any network
        self._known: set[tuple[float, ...]] = set()  # latencies of the trials of earlier calls, which tell them apart
        self._read = 0  # bytes of the database's file
        self._count_new_records()
        self._is_full = False  # the disk: TVM could not store a record
        self._chosen: tuple[int, float] | None = None  # the task of the last batch, and when it began
        self._learned_from: Mapping[str, Mapping[str, int]] = {}  # by TVM's name of the task
        self._states = [TaskState(task) for task in tasks]
        for state in self._states:
            state.resume(seconds(record.run_secs) for record in records_of(database, state.mod, target))
        self._load_best(folder / BEST_DATABASE)
        operators = [Operator(int(task.weight), (i,)) for i, task in enumerate(tasks)]
        journal = Journal(folder / JOURNAL, overwrite=not len(database))
        super().__init__(self._states, operators, trials, folder, journal, start)

    def _load_best(self, folder: Path) -> None:
        """Of the trials of an earlier call, the one that it found best, maybe by timing it again, is."""
        restore_best(folder.parent)
        if not len(self._database) or not folder.exists():
            return
        repair(folder)
        earlier, self._known = load_database(folder), latencies_before(self._folder)
        self._best_before = list(earlier.get_all_tuning_records())
        for i, state in enumerate(self._states):
            self._best.update((i, record) for record in records_of(earlier, state.mod, self._target)[:1])
            if i in self._best:
                state.confirmed(seconds(self._best_of(i).run_secs))

    def records_of_others(self) -> list[Any]:
        """Records of other networks in the database, and of other targets."""
        own = self._own_workloads()
        records = self._database.get_all_tuning_records()
        return [one for one in records if one.workload not in own or not structural_equal(one.target, self._target)]

    def record_lowering(self, lowered: tvm.IRModule) -> None:
        """Tell the journal in which layouts, and with which functions, operators are tuned."""
        if self.left > 0:
            with suppress(Exception):  # a report can do without
                self._journal.write(NetworkLowered(**count_changes(lowered)))

    def measure_machine(self, runner: Any) -> None:
        """Find out how fast the tasks can be at most."""
        if not isinstance(runner, LocalRunner):
            return
        measure, cannot = partial(runner.roofline, self._target), partial(cannot_run, self._target)
        roofline = self.measure_limits(measure, lambda i: work(self._states[i].mod), cannot)
        if roofline is None:
            return
        for i, state in enumerate(self._states):
            if self._is_small(i):
                state.progress.kind = state.key  # others do not wait for what it finds

    def run(
        self,
        strategy: Any,
        builder: Any,
        runner: Any,
        task_scheduler: TaskScheduler,
        cost_model: Any,
        seed: int | None,
        deadline: float,
        guard: SigintGuard,
    ) -> None:
        """Spend the budget."""
        self.begin_measuring()
        budget, rng = Budget(self.left, deadline), np.random.default_rng(seed)
        if isinstance(strategy, OpEvoStrategy):
            strategy = strategy.with_budget(budget)
            self._learned_from = strategy.learned_from
        with without_nameless_handlers():
            contexts, weights = ms.relax_integration.extracted_tasks_to_tune_contexts(
                self._extracted, str(self._folder), strategy=strategy, seed=None if seed is None else seed + 1
            )
        scheduler = CallbackScheduler(len(contexts), lambda records: self._choose(records, task_scheduler, budget, rng), guard)
        seconds_left = max(0.0, deadline - time.monotonic()) if deadline < inf else None
        display = ProgressDisplay(self._budget, self.trials, seconds_left)
        with self._time_of(builder, runner), display as self.display, guard:
            ms.tune.tune_tasks(
                tasks=contexts,
                task_weights=weights,
                work_dir=str(self._folder),
                max_trials_global=self.left,
                max_trials_per_task=self._budget,
                num_trials_per_iter=max(1, min(_MAX_ROUND, self._budget // len(contexts))),
                builder=builder,
                runner=runner,
                database=self._database,
                cost_model=cost_model,
                measure_callbacks=[*ms.MeasureCallback.create("default"), ProgressCallback(self._add)],
                task_scheduler=scheduler,
            )
        if self._is_full:  # raised here, since TVM would make another error of it
            raise OSError(f"{self._folder} does not have the last trials: make room on its disk; the same call then resumes")
        if self.left > 0:
            self.stop_reason = "time limit" if time.monotonic() >= deadline else EXHAUSTED

    @contextmanager
    def _time_of(self, builder: Any, runner: Any) -> Iterator[None]:
        """Count what a builder and a runner of this package spend within; others do not tell."""
        phases = [("building", builder), ("running", runner)]
        before = [(phase, one, one.seconds) for phase, one in phases if isinstance(one, (LocalBuilder, LocalRunner))]
        try:
            yield
        finally:
            self.phases.update({phase: one.seconds - seconds for phase, one, seconds in before})

    def end_measuring(self) -> None:
        """What is left of the time is TVM's and the search's, and that of builders and runners that do not tell."""
        *others, last = "searching", *(phase for phase in ("building", "running") if phase not in self.phases)
        self.end({}, f"{', '.join(others)} and {last}" if others else last)

    def _choose(
        self, records: Sequence[Any], task_scheduler: TaskScheduler, budget: Budget, rng: np.random.Generator
    ) -> int | None:
        """The task of the next batch; None to end the run."""
        now = time.monotonic()
        if self._chosen:
            last, began = self._chosen
            self._states[last].took(now - began)
        progress = [state.progress for state in self._states]
        for task, record in zip(progress, records):
            task.active, task.pending = not record.is_terminated, len(record.measure_candidates or ())
        left = self.left - sum(task.pending for task in progress)
        if self._is_full or left <= 0 or now >= budget.deadline or not any(task.active for task in progress):
            return None
        chosen = choose(task_scheduler, progress, self._operators, left, rng)
        budget.batch = most_trials(task_scheduler, progress, chosen, left)
        if not progress[chosen].begun and self._is_small(chosen):
            budget.batch = min(budget.batch, _FEW)
        self._chosen = chosen, now
        return chosen

    def _is_small(self, task: int) -> bool:
        """Whether a task hardly matters, if all are at their limits; False if these are unknown."""
        limits = [operator.count * self._states[operator.tasks[0]].progress.limit for operator in self._operators]
        return limits[task] < _SMALL_SHARE * sum(limits)

    def confirm(self, builder: Any, runner: Any, guard: SigintGuard) -> None:
        """Time the best candidates again. An error here must not cost the user the result of hours of tuning."""
        order = self.by_share()
        records = [records_of(self._database, self._states[i].mod, self._target) for i in order]
        try:
            with guard, self.phase("confirming"):
                for one in confirm(records, builder, runner, CONFIRMATION_SHARE * (time.monotonic() - self._start)):
                    task = order[one.task]
                    self._best[task] = one.record
                    self._known |= {latencies(record.run_secs) for record in records[one.task]}
                    self._states[task].confirmed(seconds(one.record.run_secs))
                    state = self._states[task]
                    self._journal.write(
                        BestConfirmed(task=state.key, record="", latencies=one.latencies, latency=state.latency, ties=one.ties)
                    )
        except Exception as error:
            if guard.interrupted:
                raise
            logger.warning("the best candidates were not timed again: %s", last_line(str(error)))

    def learned_from(self) -> Mapping[str, Mapping[str, int]]:
        """See `Session`."""
        return {state.key: self._learned_from.get(str(task.task_name), {}) for state, task in zip(self._states, self._extracted)}

    def name_unused(self, origins: Iterable[str]) -> None:
        """Say from which histories no task learned, once some have been tuned."""
        used = set().union(*self.learned_from().values())
        for origin in dict.fromkeys(origins):
            if self._learned_from and origin not in used:
                self.display.write(
                    f"nothing was learned from {origin}: its tasks have other structures, or others were more similar"
                )

    def write_best(self) -> Any:
        """Write the best record of each task to a database of its own, where those of other networks are kept; returns a database
        with this network's."""
        own = [record for i in range(len(self._states)) if (record := self._best_of(i)) is not None]
        write_best(self._folder, [*own, *self._best_of_others()], count_records(self._folder))
        return database_with(own)

    def _best_of(self, task: int) -> Any:
        """The best record of a task; None without one."""
        return self._better(self._best.get(task), records_of(self._database, self._states[task].mod, self._target))

    def _best_of_others(self) -> list[Any]:
        """The best record of each workload of other networks in the database, and of each other target."""
        database = self._database
        before = {
            (database.commit_workload(record.workload.mod), str(record.target)): record
            for record in self._best_before
            if database.has_workload(record.workload.mod)
        }
        others = defaultdict(list)
        for record in self.records_of_others():
            others[record.workload, str(record.target)].append(record)
        found = (self._better(before.get(key), records) for key, records in others.items())
        return [record for record in found if record is not None]

    def _own_workloads(self) -> set[Any]:
        """The tasks' workloads in the database."""
        return {self._database.commit_workload(state.mod) for state in self._states if self._database.has_workload(state.mod)}

    def _better(self, before: Any, records: Sequence[Any]) -> Any:
        """The best of an earlier call, unless a record that it was not chosen from is faster; else the fastest that succeeded."""
        succeeded = (record for record in records if seconds(record.run_secs) < inf)
        new = [record for record in succeeded if before is None or latencies(record.run_secs) not in self._known]
        return min([*([before] if before is not None else []), *new], key=lambda one: seconds(one.run_secs), default=None)

    def result(self) -> TuningResult:
        """The result so far."""
        folder = self._folder / BEST_DATABASE
        return replace(super().result(), best_file=folder if folder.exists() else None)

    def _count_new_records(self) -> int:
        """Number of records that were stored since the last time."""
        with suppress(FileNotFoundError), open(self._folder / RECORD_FILE, "rb") as file:
            file.seek(self._read)
            new = file.read()
            self._read += len(new)
            return new.count(b"\n")
        return 0

    def _add(self, task: int, results: Sequence[tuple[float, Failure]]) -> None:
        """Count a batch of one task, once it is known to be stored: TVM does not tell when a disk is full."""
        if self._count_new_records() < len(results):
            self._is_full = True
            return
        for latency, (kind, message) in results:
            self._states[task].add(latency, kind, message)
            self._journal.write(TrialEnded(task=self._states[task].key, failure=kind, message=message))
        self._states[task].end_round()
        self.show(task)
