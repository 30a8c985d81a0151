"""One call of `tune_network`: rounds of trials for one task at a time, into AutoTVM's log."""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from typing import Any

import numpy as np
import tvm
from tvm.autotvm import record
from tvm.autotvm.measure import MeasureErrorNo
from tvm.autotvm.measure.measure import Runner

from autotvm_opevo.autotvm.best_file import BestFile
from autotvm_opevo.autotvm.confirmation import confirm
from autotvm_opevo.autotvm.extraction import Extraction
from autotvm_opevo.autotvm.log import Log, Record, failure, parse, workload_key
from autotvm_opevo.autotvm.measurer import Measurer
from autotvm_opevo.autotvm.roofline import work
from autotvm_opevo.autotvm.rpc import DevicePoolError
from autotvm_opevo.autotvm.runner import LocalRunner
from autotvm_opevo.autotvm.targets import cannot_run
from autotvm_opevo.autotvm.task_state import Proposal, TaskState
from autotvm_opevo.tuning.confirmation import CONFIRMATION_SHARE
from autotvm_opevo.tuning.drift import Drift
from autotvm_opevo.tuning.journal import BestConfirmed, DevicesLeft, Journal, KnobsMapped, RunHistory, TrialEnded
from autotvm_opevo.tuning.logs import best_file
from autotvm_opevo.tuning.progress import ProgressDisplay
from autotvm_opevo.tuning.result import EXHAUSTED, TuningResult
from autotvm_opevo.tuning.roofline import Roofline
from autotvm_opevo.tuning.session import Session
from autotvm_opevo.tuning.task_scheduler import TaskScheduler, choose, most_trials, round_size
from autotvm_opevo.tuning.workers import ForkServerError

logger = logging.getLogger(__name__)


@dataclass
class _Batch:
    """A batch of a task, by position, that is being measured, and how many of its trials are not finished."""

    task: int
    proposal: Proposal
    left: int
    ends_round: bool


class NetworkSession(Session):
    """The tasks of a network, measured by AutoTVM; see `Session`."""

    def __init__(
        self,
        states: Sequence[TaskState],
        network: Extraction,
        log: Log,
        journal: Journal,
        trials: int,
        batch: int,
        rng: np.random.Generator,
        start: float,
        drift: Drift,
    ) -> None:
        self._states, self._log, self._rng = states, log, rng
        self._batch = batch
        self._round_left = self._current = 0  # trials of this round that are not submitted, and its task
        self._batches: dict[int, _Batch] = {}  # by the measurer's number
        self._drift = drift
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

    def run(self, measurer: Measurer, task_scheduler: TaskScheduler, deadline: float) -> None:
        """Spend the budget in rounds of trials for one task, and confirm the best; what runs next is built meanwhile."""
        seconds_left = deadline - time.monotonic() if deadline < inf else None
        self._journal.write(KnobsMapped.of({state.key: state.space.knobs for state in self._states}))
        self.begin_measuring()
        try:
            with ProgressDisplay(self._budget, self.trials, seconds_left) as self.display:
                self._measure(measurer, task_scheduler, deadline)
            with self.phase("confirming"):
                self._confirm(measurer)
            if measurer.pool:
                measurer.pool.look()  # who has left since the last trial failed
        except BaseException:
            with suppress(Exception):  # the first error counts
                for _, trial in measurer.finished():
                    self._log.append([trial])
            raise
        finally:
            if measurer.seconds_running:
                self.end({"running": measurer.seconds_running}, "building")
            else:  # with another builder or runner it is unknown which
                self.end({}, "building and running")
            if measurer.pool and measurer.pool.lost:
                with suppress(OSError):  # a full disk must not hide the error
                    self._journal.write(DevicesLeft(addresses=measurer.pool.lost))

    def _measure(self, measurer: Measurer, task_scheduler: TaskScheduler, deadline: float) -> None:
        while True:
            with measurer.quiet(), self.phase("searching"):
                while measurer.hungry and self._submit(measurer, task_scheduler, deadline):
                    pass
            if time.monotonic() >= deadline:
                measurer.cancel()
                if self.left > 0 and self.stop_reason == "trials":
                    self.stop_reason = "time limit"
            if not measurer.busy:
                return
            left = deadline - time.monotonic()
            for batch, trial in measurer.wait(left if left > 0 else inf):
                self._receive(batch, trial, measurer)

    def _submit(self, measurer: Measurer, task_scheduler: TaskScheduler, deadline: float) -> bool:
        """Submit a batch of the round's task; False if there is nothing to submit for now."""
        progress = [state.progress for state in self._states]
        begun = sum(task.begun for task in progress)
        left = self._budget - begun
        if left <= 0:
            return False
        if not any(task.active for task in progress):
            self.stop_reason = EXHAUSTED
            return False
        if time.monotonic() >= deadline:
            return False
        if self._round_left == 0:
            self._current = choose(task_scheduler, progress, self._operators, left, self._rng)
            most = min(most_trials(task_scheduler, progress, self._current, left), left)
            self._round_left = min(round_size(begun, self._budget, len(progress), self._batch), most)
        state = self._states[self._current]
        if not state.can_propose:
            return False
        state.learn_from(self._states)
        proposal = state.propose(min(measurer.batch, self._round_left, left))
        if proposal is None:
            self._round_left = 0
            if state.progress.pending == 0:
                state.end_round()
            return self._submit(measurer, task_scheduler, deadline)
        self._round_left -= len(proposal.configs)
        batch = measurer.submit(state.task, proposal.configs)
        self._batches[batch] = _Batch(self._current, proposal, len(proposal.configs), self._round_left == 0)
        return True

    def _receive(self, number: int, record: Record, measurer: Measurer) -> None:
        """Keep the result of a trial; the tuner gets those of a whole batch."""
        batch = self._batches[number]
        state = self._states[batch.task]
        self._log.append([record])
        self._journal_failure(state, record)
        state.add(record)
        batch.left -= 1
        if batch.left > 0:
            return
        del self._batches[number]
        with measurer.quiet(), self.phase("searching"):
            state.finish(batch.proposal)
        ends_round = batch.ends_round or not state.progress.active
        if ends_round:
            state.end_round()
        self.show(batch.task, ends_round)

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

    def learned_from(self) -> Mapping[str, Mapping[str, int]]:
        """See `Session`."""
        return {state.key: state.learned_from for state in self._states}

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

    def _journal_failure(self, state: TaskState, trial: Record) -> None:
        """Keep an error message, which AutoTVM's log does not."""
        _, result = trial
        if result.error_no != MeasureErrorNo.NO_ERROR:
            kind, message = failure(result)
            self._journal.write(TrialEnded(task=state.key, failure=kind, message=message))


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
