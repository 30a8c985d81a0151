"""One call of `tune_network`: trials into AutoTVM's log, the best into a file of their own."""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import tvm
from tvm.autotvm import record
from tvm.autotvm.measure import MeasureResult
from tvm.autotvm.measure.measure import Runner
from tvm.autotvm.task import Task

from autotvm_opevo.autotvm.best_file import BestFile
from autotvm_opevo.autotvm.extraction import Extraction
from autotvm_opevo.autotvm.log import Log, Record, failure, parse, workload_key
from autotvm_opevo.autotvm.measurer import Measurer
from autotvm_opevo.autotvm.roofline import work
from autotvm_opevo.autotvm.rpc import DevicePoolError
from autotvm_opevo.autotvm.runner import LocalRunner
from autotvm_opevo.autotvm.targets import cannot_run
from autotvm_opevo.autotvm.task_state import TaskState
from autotvm_opevo.tuning.confirmation import CONFIRMATION_SHARE, Confirmed, race
from autotvm_opevo.tuning.drift import Drift
from autotvm_opevo.tuning.journal import BestConfirmed, DevicesLeft, Journal, KnobsMapped, RunHistory, TrialEnded
from autotvm_opevo.tuning.logs import best_file
from autotvm_opevo.tuning.result import TuningResult
from autotvm_opevo.tuning.roofline import Roofline
from autotvm_opevo.tuning.run import TuningRun
from autotvm_opevo.tuning.task_scheduler import round_size
from autotvm_opevo.tuning.workers import ForkServerError

logger = logging.getLogger(__name__)


class NetworkRun(TuningRun):
    """The tasks of a network, measured by AutoTVM; see `TuningRun`."""

    def __init__(
        self,
        states: Sequence[TaskState],
        network: Extraction,
        log: Log,
        journal: Journal,
        trials: int,
        batch: int,
        start: float,
        drift: Drift,
    ) -> None:
        self._states, self._log, self._drift = states, log, drift
        records, confirmed = _by_task(log.records), _confirmed(journal.history)
        loaded, size = 0, round_size(len(log.records), trials, len(states), batch)
        limits = journal.history.limits
        for state in states:
            state.progress.limit = limits.get(state.key, 0.0)
            key = workload_key(state.task.target, state.task)
            loaded += state.resume(records.get(key, ()), size, confirmed.get(key))
        self._unrelated = len(log.records) - loaded
        self.best = BestFile(best_file(log.path), states, network, journal, log.records, confirmed, drift, limits)
        super().__init__(states, network.operators, trials, log.path, journal, start)

    def measure_machine(self, runner: Runner, target: tvm.target.Target) -> None:
        """Find out how fast the tasks can be at most, and let the runner notice if the machine's speed changes."""
        self._journal.write(KnobsMapped.of({state.key: state.space.knobs for state in self._states}))
        if not isinstance(runner, LocalRunner):
            for state in self._states:
                state.progress.limit = 0.0  # of this machine, if an earlier run had it
            return
        runner.drift = self._drift

        def measure() -> Roofline:
            runner.begin_drift(target)
            return runner.roofline(target)

        if roofline := self.measure_limits(measure, lambda i: work(self._states[i].task), partial(cannot_run, target)):
            self.best.bandwidth = roofline.bandwidth
            runner.limits = {workload_key(one.task.target, one.task): one.progress.limit for one in self._states}

    def _end_measuring(self, measurer: Any) -> None:
        """See `TuningRun`; also tell the journal of devices that have left."""
        super()._end_measuring(measurer)
        if measurer.pool:
            with suppress(DevicePoolError, OSError):  # a full disk must not hide the error
                measurer.pool.look()  # who has left since the last trial failed
                if measurer.pool.lost:
                    self._journal.write(DevicesLeft(addresses=measurer.pool.lost))

    def _store(self, task: TaskState, trial: Record) -> None:
        """Append to the log, and an error message to the journal, which the log lacks."""
        self._log.append([trial])
        kind, message = failure(trial[1])
        if kind:
            self._journal.write(TrialEnded(task=task.key, failure=kind, message=message))

    def _confirm(self, measurer: Measurer) -> None:
        """Time the best trials of each task again. An error here must not cost the user the result of hours of tuning."""
        order = self.by_share()
        # The best of an earlier run is not there to be timed again.
        finalists = {i: [finalist.record for finalist in measurer.finalists.of(self._states[i].task)] for i in order}
        states = [self._states[i] for i in order if self._states[i].best in finalists[i]]
        try:
            for one in confirm(measurer, [state.task for state in states], CONFIRMATION_SHARE * (time.monotonic() - self._start)):
                state = states[one.task]
                state.confirm(one.record, state.without_drift(one.record))
                self._journal.write(
                    BestConfirmed(
                        task=state.key,
                        record=record.encode(*one.record),
                        latencies=one.latencies,
                        latency=state.latency,
                        ties=one.ties,
                    )
                )
        except (DevicePoolError, ForkServerError, OSError) as error:
            logger.warning("the best trials were not timed again: %s", error)

    def _use_untuned(self, is_better: bool) -> None:
        """See `TuningRun`."""
        if is_better:
            self.best.keep_untuned(range(len(self._operators)))

    def result(self) -> TuningResult:
        """The result so far."""
        return replace(
            super().result(),
            best_file=self.best.path,
            rejected=self._log.rejected,
            unrelated=self._unrelated,
            drift=self._drift.range,
            aligned=self.best.aligned,
            kept_untuned=len(self.best.kept_untuned),
        )


def confirm(measurer: Measurer, tasks: Sequence[Task], seconds: float) -> Iterator[Confirmed]:
    """Race the finalists of each task, as far as the time allows. A measurer that keeps none confirms none."""
    end = time.monotonic() + seconds
    finalists = [measurer.finalists.of(task) for task in tasks]

    def time_again(task: int, finalist: int) -> float:
        return measurer.time_again(finalists[task][finalist])

    for i, finished in race([len(found) for found in finalists], time_again, measurer.restart, end):
        assert finished.winner is not None
        winner = finalists[i][finished.winner]
        result = MeasureResult((finished.latency,), 0, winner.result.all_cost, time.time())
        yield Confirmed(i, (winner.measured, result), finished.latencies(finished.winner), finished.ties)


def _confirmed(history: RunHistory) -> dict[tuple[str, Any], tuple[Record, float]]:
    """The records that were confirmed last, and their latencies in seconds, without drift, by target and workload."""
    found = {}
    for one in history.confirmed.values():
        with suppress(ValueError):
            if pair := parse(one.record):
                found[workload_key(pair[0].target, pair[0].task)] = pair, one.latency
    return found


def _by_task(records: Iterable[Record]) -> dict[tuple[str, Any], list[Record]]:
    groups: dict[tuple[str, Any], list[Record]] = defaultdict(list)
    for measured, result in records:
        groups[workload_key(measured.target, measured.task)].append((measured, result))
    return dict(groups)
