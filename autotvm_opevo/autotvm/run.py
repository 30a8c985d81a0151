"""One call of `tune_network`: trials into AutoTVM's log, the best into a file of their own."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import tvm
from tvm.autotvm import record
from tvm.autotvm.measure import MeasureResult
from tvm.autotvm.measure.measure import Runner

from autotvm_opevo.autotvm.best_file import BestFile
from autotvm_opevo.autotvm.extraction import Extraction
from autotvm_opevo.autotvm.log import Record, workload_key
from autotvm_opevo.autotvm.measurer import Measurer
from autotvm_opevo.autotvm.roofline import work
from autotvm_opevo.autotvm.rpc import DevicePoolError
from autotvm_opevo.autotvm.runner import LocalRunner
from autotvm_opevo.autotvm.store import TrialStore
from autotvm_opevo.autotvm.targets import cannot_run
from autotvm_opevo.autotvm.task_state import TaskState
from autotvm_opevo.tuning.finalists import Finalist
from autotvm_opevo.tuning.journal import DevicesLeft, KnobsMapped
from autotvm_opevo.tuning.result import TuningResult
from autotvm_opevo.tuning.run import TuningRun
from autotvm_opevo.tuning.task_scheduler import round_size

logger = logging.getLogger(__name__)


class NetworkRun(TuningRun):
    """The tasks of a network, measured by AutoTVM; see `TuningRun`."""

    store: TrialStore

    def __init__(
        self,
        states: Sequence[TaskState],
        network: Extraction,
        store: TrialStore,
        trials: int,
        batch: int,
        start: float,
    ) -> None:
        self._states = states
        known = len(store.log.records)
        loaded, size = 0, round_size(known, trials, len(states), batch)
        for state in states:
            state.progress.limit = store.journal.history.limits.get(state.key, 0.0)
            loaded += state.resume(store.records[state.key], size, store.confirmed.get(state.key))
        self._unrelated = known - loaded
        self.best = BestFile(states, network, store)
        super().__init__(states, network.operators, trials, store, start)

    def measure_machine(self, runner: Runner, target: tvm.target.Target) -> None:
        """Find out how fast the tasks can be at most."""
        self._journal.write(
            KnobsMapped.of({state.key: state.space.knobs for state in self._states})
        )
        if not isinstance(runner, LocalRunner):
            for state in self._states:
                state.progress.limit = 0.0  # of this machine, if an earlier run had it
            return
        measure = partial(runner.roofline, target)
        if roofline := self.measure_limits(
            measure, lambda i: work(self._states[i].task), partial(cannot_run, target)
        ):
            self.best.bandwidth = roofline.bandwidth

    def _end_measuring(self, measurer: Any) -> None:
        """See `TuningRun`; also tell the journal of devices that have left."""
        super()._end_measuring(measurer)
        if measurer.pool:
            with suppress(DevicePoolError, OSError):  # a full disk must not hide the error
                measurer.pool.look()  # who has left since the last trial failed
                if measurer.pool.lost:
                    self._journal.write(DevicesLeft(addresses=measurer.pool.lost))

    def _finalists(self, measurer: Measurer, task: TaskState) -> list[Finalist]:
        """See `TuningRun`."""
        found = measurer.finalists.of(workload_key(task.task.target, task.task))
        return found if task.best in [one.trial for one in found] else []

    def _use_confirmed(self, task: TaskState, best: Record, latency: float) -> str:
        """See `TuningRun`."""
        measured, result = best
        task.confirm((measured, MeasureResult((latency,), 0, result.all_cost, time.time())))
        return str(record.encode(*task.best))

    def _use_untuned(self, is_better: bool) -> None:
        """See `TuningRun`."""
        if is_better:
            self.best.untuned = True
            self.best.write()

    def result(self) -> TuningResult:
        """The result so far."""
        return replace(
            super().result(),
            best_file=self.best.path,
            rejected=self.store.log.rejected,
            unrelated=self._unrelated,
            aligned=self.best.aligned,
        )
