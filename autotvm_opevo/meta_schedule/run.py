"""One call of `tune_network`: trials into a work directory, the best into a database of their
own.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import tvm
from tvm.s_tir.meta_schedule.database import TuningRecord

from autotvm_opevo._utils.text import pluralize
from autotvm_opevo._utils.timeouts import say_if_long
from autotvm_opevo.lowering.network import count_changes
from autotvm_opevo.meta_schedule.database import database_with
from autotvm_opevo.meta_schedule.measurer import Measurer, Trial
from autotvm_opevo.meta_schedule.roofline import work
from autotvm_opevo.meta_schedule.runner import LocalRunner
from autotvm_opevo.meta_schedule.store import TrialStore, network_key
from autotvm_opevo.meta_schedule.targets import cannot_run
from autotvm_opevo.meta_schedule.task_state import TaskState
from autotvm_opevo.tuning.finalists import Finalist
from autotvm_opevo.tuning.journal import NetworkLowered
from autotvm_opevo.tuning.logs import BEST_DATABASE
from autotvm_opevo.tuning.result import TuningResult
from autotvm_opevo.tuning.run import TuningRun
from autotvm_opevo.tuning.task_scheduler import Operator

logger = logging.getLogger(__name__)

# A task with a smaller share of the latency, all being at their limits, begins with so few trials.
_SMALL_SHARE, _FEW = 0.01, 2


class NetworkRun(TuningRun):
    """The tasks of a network, measured by MetaSchedule; see `TuningRun`."""

    store: TrialStore

    def __init__(
        self,
        states: Sequence[TaskState],
        target: tvm.target.Target,
        store: TrialStore,
        trials: int,
        start: float,
    ) -> None:
        self._states, self._target = states, target
        self._network = network_key(target, [state.key for state in states])
        operators = [Operator(int(state.task.weight), (i,)) for i, state in enumerate(states)]
        super().__init__(states, operators, trials, store, start)

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

    def _round(self, task: int, size: int) -> int:
        """See `TuningRun`."""
        return (
            min(size, _FEW)
            if not self._states[task].progress.begun and self._is_small(task)
            else size
        )

    def _is_small(self, task: int) -> bool:
        """Whether a task hardly matters, if all are at their limits; False if these are unknown."""
        limits = [
            operator.count * self._states[operator.tasks[0]].progress.limit
            for operator in self._operators
        ]
        return limits[task] < _SMALL_SHARE * sum(limits)

    def _finalists(self, measurer: Measurer, task: TaskState) -> list[Finalist]:
        """See `TuningRun`."""
        found = measurer.finalists.of(task.key)
        return found if found and found[0].seconds <= task.latency else []

    def _use_confirmed(self, task: TaskState, best: Trial | TuningRecord, latency: float) -> str:
        """See `TuningRun`."""
        if isinstance(best, Trial):
            workload, candidate = self.store.database.commit_workload(task.mod), best.candidate
            best = TuningRecord(
                candidate.sch.trace, workload, [latency], self._target, candidate.args_info
            )
        self.store.set_best(best)
        task.confirmed(latency)
        return ""

    def choose_unmeasured(self) -> None:
        """Choose a schedule for each operator without a trial, since on a CPU it would be a loop
        nest of scalars without any.
        """
        missing = [i for i, state in enumerate(self._states) if not state.progress.trials]
        if not missing or not self.succeeded or self._target.kind.name != "llvm":
            return
        with self.phase("searching"), say_if_long("choosing schedules without a trial"):
            chosen = [
                record
                for i in missing
                if (record := self._states[i].choose_unmeasured(self._states)) is not None
            ]
        for record in chosen:
            self.store.set_best(record)
        if chosen:
            operators = pluralize(len(chosen), "operator")
            self.display.write(
                f"{operators} without a trial: the schedule is what would have been measured first"
            )

    def name_unused(self, origins: Iterable[str]) -> None:
        """Say from which histories no task learned, once some have been tuned."""
        used = set().union(*(state.learned_from for state in self._states))
        for origin in dict.fromkeys(origins):
            if self.trials > self._resumed and origin not in used:
                self.display.write(
                    f"nothing was learned from {origin}: its tasks have other structures, or "
                    "others were more similar"
                )

    def write_best(self) -> Any:
        """Write the best record of each task to a database of its own, where those of other
        networks are kept; returns a database with this network's. Of a network that computes
        something else there are none, so that nobody deploys them."""
        is_wrong = self._comparison is not None and not self._comparison.outputs_match
        if self._comparison is None and self.trials > self._resumed:
            self.store.untuned.discard(self._network)  # until it is compared again
        self.store.write_best(
            left_out={(state.key, str(self._target)) for state in self._states if is_wrong}
        )
        return database_with([] if is_wrong else [state.best for state in self._states])

    def _use_untuned(self, is_better: bool) -> None:
        """See `TuningRun`."""
        if is_better != (self._network in self.store.untuned):
            self.store.untuned ^= {self._network}
            self.write_best()

    def result(self) -> TuningResult:
        """The result so far."""
        folder = self.store.path / BEST_DATABASE
        return replace(super().result(), best_file=folder if folder.exists() else None)
