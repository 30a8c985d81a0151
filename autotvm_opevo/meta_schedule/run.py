"""One call of `tune_network`: trials into a work directory, the best into a database of their own."""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

import tvm
from tvm.s_tir.meta_schedule.database import TuningRecord

from autotvm_opevo._utils.text import last_line, pluralize
from autotvm_opevo._utils.timeouts import say_if_long
from autotvm_opevo.lowering.network import count_changes
from autotvm_opevo.meta_schedule.best_database import (
    count_records,
    latencies_before,
    network_key,
    restore_best,
    untuned_networks,
    write_best,
)
from autotvm_opevo.meta_schedule.confirmation import confirm
from autotvm_opevo.meta_schedule.database import (
    database_with,
    latencies,
    load_database,
    records_of,
    records_of_others,
    repair,
    seconds,
)
from autotvm_opevo.meta_schedule.measurer import Measurer, Trial
from autotvm_opevo.meta_schedule.roofline import work
from autotvm_opevo.meta_schedule.runner import LocalRunner
from autotvm_opevo.meta_schedule.targets import cannot_run
from autotvm_opevo.meta_schedule.task_state import TaskState
from autotvm_opevo.tuning.confirmation import CONFIRMATION_SHARE
from autotvm_opevo.tuning.journal import JOURNAL, BestConfirmed, Journal, NetworkLowered, TrialEnded
from autotvm_opevo.tuning.logs import BEST_DATABASE, RECORD_FILE
from autotvm_opevo.tuning.result import TuningResult
from autotvm_opevo.tuning.run import TuningRun
from autotvm_opevo.tuning.task_scheduler import Operator

logger = logging.getLogger(__name__)

# A task with a smaller share of the latency, all being at their limits, begins with so few trials.
_SMALL_SHARE, _FEW = 0.01, 2
# Seconds that TVM stores for a failed trial.
_FAILED = 1e10


class NetworkRun(TuningRun):
    """The tasks of a network, measured by MetaSchedule; see `TuningRun`."""

    def __init__(
        self, states: Sequence[TaskState], target: tvm.target.Target, database: Any, folder: Path, trials: int, start: float
    ) -> None:
        self._states, self._database, self._folder, self._target = states, database, folder, target
        self._best: dict[int, Any] = {}  # by task: confirmed in this call, or the best of an earlier one
        self._best_before: list[Any] = []  # of an earlier call, for any network
        self._is_untuned = False  # whether the network is better so, as far as known
        self._others_untuned: list[list[str]] = []  # the networks that are, as earlier calls found
        self._known: set[tuple[float, ...]] = set()  # latencies of the trials of earlier calls, which tell them apart
        self._size = _size(folder)  # of the database's file in bytes
        self._load_best(folder / BEST_DATABASE)
        operators = [Operator(int(state.task.weight), (i,)) for i, state in enumerate(states)]
        journal = Journal(folder / JOURNAL, overwrite=not len(database))
        super().__init__(states, operators, trials, folder, journal, start)

    def _load_best(self, folder: Path) -> None:
        """Of the trials of an earlier call, the one that it found best, maybe by timing it again, is."""
        restore_best(folder.parent)
        if not len(self._database) or not folder.exists():
            return
        repair(folder)
        earlier, self._known = load_database(folder), latencies_before(self._folder)
        self._best_before = list(earlier.get_all_tuning_records())
        self._others_untuned = untuned_networks(folder)
        if self._network in self._others_untuned:
            self._others_untuned.remove(self._network)
            self._is_untuned = True
        for i, state in enumerate(self._states):
            best = next(iter(records_of(earlier, state.mod, self._target)), None)
            if best is not None and seconds(best.run_secs) < inf:
                self._best[i] = best
                state.confirmed(seconds(self._best_of(i).run_secs))

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

    def _store(self, task: TaskState, trial: Trial) -> None:
        """Add to the database, and to the journal what it lacks. TVM does not tell when a disk is full."""
        candidate, run_secs = trial.candidate, trial.result.run_secs if not trial.failure else [_FAILED]
        workload = self._database.commit_workload(task.mod)
        self._database.commit_tuning_record(
            TuningRecord(candidate.sch.trace, workload, run_secs, self._target, candidate.args_info)
        )
        before, self._size = self._size, _size(self._folder)
        if self._size == before or not _ends_with_newline(self._folder):
            raise OSError(f"{self._folder} does not have the last trials: make room on its disk; the same call then resumes")
        self._journal.write(TrialEnded(task=task.key, failure=trial.failure, message=trial.message))
        self._is_untuned = False

    def _round(self, task: int, size: int) -> int:
        """See `TuningRun`."""
        return min(size, _FEW) if not self._states[task].progress.begun and self._is_small(task) else size

    def _is_small(self, task: int) -> bool:
        """Whether a task hardly matters, if all are at their limits; False if these are unknown."""
        limits = [operator.count * self._states[operator.tasks[0]].progress.limit for operator in self._operators]
        return limits[task] < _SMALL_SHARE * sum(limits)

    def _confirm(self, measurer: Measurer) -> None:
        """See `TuningRun`."""
        order = self.by_share()
        records = [self._states[i].records for i in order]
        try:
            for one in confirm(records, measurer, CONFIRMATION_SHARE * (time.monotonic() - self._start)):
                task = order[one.task]
                state = self._states[task]
                self._best[task] = one.record
                self._known |= {latencies(record.run_secs) for record in records[one.task]}
                state.confirmed(seconds(one.record.run_secs))
                self._journal.write(
                    BestConfirmed(task=state.key, record="", latencies=one.latencies, latency=state.latency, ties=one.ties)
                )
        except Exception as error:
            logger.warning("the best candidates were not timed again: %s", last_line(str(error)))

    def choose_unmeasured(self) -> None:
        """Choose a schedule for each operator without a trial, since on a CPU it would be a loop nest of scalars without any."""
        missing = [i for i, state in enumerate(self._states) if not state.progress.trials]
        if not missing or not self.succeeded or self._target.kind.name != "llvm":
            return
        with self.phase("searching"), say_if_long("choosing schedules without a trial"):
            chosen = {i: record for i in missing if (record := self._states[i].choose_unmeasured(self._states)) is not None}
        self._best.update(chosen)
        if chosen:
            operators = pluralize(len(chosen), "operator")
            self.display.write(f"{operators} without a trial: the schedule is what would have been measured first")

    def name_unused(self, origins: Iterable[str]) -> None:
        """Say from which histories no task learned, once some have been tuned."""
        used = set().union(*(state.learned_from for state in self._states))
        for origin in dict.fromkeys(origins):
            if self.trials > self._resumed and origin not in used:
                self.display.write(
                    f"nothing was learned from {origin}: its tasks have other structures, or others were more similar"
                )

    def write_best(self) -> Any:
        """Write the best record of each task to a database of its own, where those of other networks are kept; returns a database
        with this network's. Of a network that computes something else there are none, so that nobody deploys them."""
        is_wrong = self._comparison is not None and not self._comparison.outputs_match
        own = [one for i in range(len(self._states)) if not is_wrong and (one := self._best_of(i)) is not None]
        untuned = [*self._others_untuned, *([self._network] if self._is_untuned else [])]
        write_best(self._folder, [*own, *self._best_of_others()], count_records(self._folder), untuned)
        return database_with(own)

    @property
    def _network(self) -> list[str]:
        """See `untuned_networks`."""
        return network_key(self._target, [state.key for state in self._states])

    def _use_untuned(self, is_better: bool) -> None:
        """See `TuningRun`."""
        if is_better != self._is_untuned:
            self._is_untuned = is_better
            self.write_best()

    def _best_of(self, task: int) -> Any:
        """The best record of a task; None without one."""
        return self._better(self._best.get(task), self._states[task].records)

    def _best_of_others(self) -> list[Any]:
        """The best record of each workload of other networks in the database, and of each other target."""
        database = self._database
        before = {
            (database.commit_workload(record.workload.mod), str(record.target)): record
            for record in self._best_before
            if database.has_workload(record.workload.mod)
        }
        others = defaultdict(list)
        for record in records_of_others(database, [state.mod for state in self._states], self._target):
            others[record.workload, str(record.target)].append(record)
        own = {(database.commit_workload(state.mod), str(self._target)) for state in self._states}
        keys = dict.fromkeys([*others, *(key for key in before if key not in own)])  # some without a trial
        found = (self._better(before.get(key), others[key]) for key in keys)
        return [record for record in found if record is not None]

    def _better(self, before: Any, records: Sequence[Any]) -> Any:
        """The best of an earlier call, unless a record that it was not chosen from is faster; else the fastest that succeeded."""
        succeeded = (record for record in records if seconds(record.run_secs) < inf)
        new = [record for record in succeeded if before is None or latencies(record.run_secs) not in self._known]
        return min([*([before] if before is not None else []), *new], key=lambda one: seconds(one.run_secs), default=None)

    def result(self) -> TuningResult:
        """The result so far."""
        folder = self._folder / BEST_DATABASE
        return replace(super().result(), best_file=folder if folder.exists() else None)


def _size(folder: Path) -> int:
    """Bytes of a database's records."""
    file = folder / RECORD_FILE
    return file.stat().st_size if file.exists() else 0


def _ends_with_newline(folder: Path) -> bool:
    """Whether the last record of a database is whole."""
    with open(folder / RECORD_FILE, "rb") as file:
        file.seek(-1, 2)
        return file.read() == b"\n"
