"""One task of a network: its search, its trials, its best latency, its failures and its time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from math import inf
from typing import Any, NamedTuple

from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.analysis import estimate_tir_flops
from tvm.s_tir.meta_schedule.database import TuningRecord
from tvm.s_tir.meta_schedule.search_strategy import MeasureCandidate
from tvm.target import Target

from autotvm_opevo.meta_schedule.database import seconds, workload_key
from autotvm_opevo.meta_schedule.extraction import kind_of, task_name
from autotvm_opevo.meta_schedule.measurer import Trial, interrupts_in_tvm
from autotvm_opevo.meta_schedule.store import TrialStore
from autotvm_opevo.meta_schedule.strategy import warn_of_exhaustion
from autotvm_opevo.tuning import task_state
from autotvm_opevo.tuning.logs import UNMEASURED
from autotvm_opevo.tuning.task_scheduler import TaskProgress


class TvmStrategy(NamedTuple):
    """One of TVM's strategies, or a user's, with what TVM's loop would give it: a cost model, which
    all tasks share, and the largest number of trials, in all and in a batch."""

    strategy: Any
    cost_model: Any
    trials: int
    per_round: int


class TaskState(task_state.TaskState):
    """See `tuning.task_state.TaskState`; a subclass has its search.

    Parameters
    ----------
    task : ExtractedTask
    target : tvm.target.Target
    store : TrialStore
        With its trials of earlier calls.
    strategy : OpEvoStrategy or TvmStrategy
        Its options and its history.
    rand_state : int

    Attributes
    ----------
    mod : tvm.IRModule
        Its workload, whose structural hash is the task's key.
    target : tvm.target.Target
        As given.
    """

    learned_from: Mapping[str, int] = {}

    def __init__(
        self, task: Any, target: Target, store: TrialStore, strategy: Any, rand_state: int
    ) -> None:
        self.mod, self.target, self._store = task.dispatched[0], target, store
        self._strategy, self._rand_state = strategy, rand_state
        progress = TaskProgress(flop=float(estimate_tir_flops(self.mod)), kind=kind_of(task))
        super().__init__(task, task_name(task), workload_key(self.mod), progress)
        records = self.records
        for record in records:
            latency = seconds(record.run_secs)
            self._count(latency, "failed" if latency == inf else "")
        # trials of earlier calls, and the seconds of all others
        self._before, self._seconds = len(records), 0.0
        if self.best:
            self.latency = seconds(self.best.run_secs)
        if records:
            self.end_round()

    @property
    def records(self) -> list[Any]:
        """In the store, the fastest first."""
        return self._store.records(self)

    @property
    def best(self) -> TuningRecord | None:
        """See `tuning.task_state.TaskState`."""
        return self._store.best(self)

    @property
    def can_propose(self) -> bool:
        """See `tuning.task_state.TaskState`."""
        return True

    def add(self, trial: Trial) -> None:
        """Count a trial of a candidate."""
        self.progress.pending -= 1
        self._count(trial.latency, trial.failure, trial.message)
        now = self.progress.trials - self._before
        self._seconds += trial.seconds
        # earlier calls took as long for each trial
        self.progress.seconds = self._seconds * self.progress.trials / now

    def choose_unmeasured(self, others: Sequence[Any]) -> TuningRecord | None:
        """A record of what would be measured first, as far as that is known without a trial; no
        measured one is slower.
        """
        return None

    def _context(self, strategy: Any = None) -> ms.TuneContext:
        """TVM's, with a strategy of its own."""
        return ms.TuneContext(
            self.mod,
            target=self.target,
            space_generator="post-order-apply",
            search_strategy=strategy,
            task_name=self.task.task_name,
            rand_state=self._rand_state,
        ).clone()


class OpEvoTask(TaskState):
    """A task of which OpEvo gets each result as it comes, and proposes while others are
    measured.
    """

    @cached_property
    def search(self) -> Any:
        """Made on first use: a small budget may never get to this task."""
        context = self._context()
        sketches = context.generate_design_space()
        postprocs = list(context.space_generator.postprocs)
        search = self._strategy.search(
            str(self.task.task_name), self.mod, sketches, postprocs, self._rand_state
        )
        search.load(self.records)
        return search

    def add(self, trial: Trial) -> None:
        """See `TaskState`."""
        super().add(trial)
        self.search.tell([trial.candidate], [1.0 / trial.latency])

    def finish(self, candidates: Sequence[MeasureCandidate]) -> None:
        """See `TaskState`; it has them already."""

    def _propose(self, size: int, others: Sequence[OpEvoTask]) -> list[MeasureCandidate]:
        if self._strategy.can_transfer:
            known = [
                other.search.source for other in others if other is not self and other.latency < inf
            ]
            self.learned_from = self._strategy.teach(self.search, self.target, known)
        candidates: list[MeasureCandidate] = self.search.propose(size)
        if not candidates:
            warn_of_exhaustion(self.name, self.search, size)
        return candidates

    def choose_unmeasured(self, others: Sequence[OpEvoTask]) -> TuningRecord | None:
        """See `TaskState`."""
        for candidate in self._propose(1, others):
            workload = self._store.database.commit_workload(self.mod)
            return TuningRecord(
                candidate.sch.trace, workload, [UNMEASURED], self.target, candidate.args_info
            )
        return None


class StrategyTask(TaskState):
    """A task whose search is a `TvmStrategy`: it needs all results of a batch before the next."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._told: dict[int, Trial] = {}  # of the batch, by the identity of the candidate

    @cached_property
    def _tvm(self) -> ms.TuneContext:
        strategy, cost_model, trials, per_round = self._strategy
        context = self._context(strategy)
        context.pre_tuning(trials, per_round, database=self._store.database, cost_model=cost_model)
        return context

    @property
    def can_propose(self) -> bool:
        """See `TaskState`."""
        return self.progress.pending == 0

    def add(self, trial: Trial) -> None:
        """See `TaskState`."""
        super().add(trial)
        self._told[id(trial.candidate)] = trial

    def finish(self, candidates: Sequence[MeasureCandidate]) -> None:
        """See `TaskState`; tells the strategy, and its cost model."""
        trials = [self._told.pop(id(candidate)) for candidate in candidates]
        with interrupts_in_tvm(defer=True):
            self._tvm.notify_runner_results(list(candidates), [trial.result for trial in trials])
            built = [trial for trial in trials if not trial.failure.startswith("build")]
            if self._strategy.cost_model is not None and built:
                self._strategy.cost_model.update(
                    self._tvm,
                    [trial.candidate for trial in built],
                    [trial.result for trial in built],
                )

    def _propose(self, size: int, others: Sequence[Any]) -> list[MeasureCandidate]:
        with interrupts_in_tvm(defer=True):
            while (candidates := self._tvm.generate_measure_candidates()) is not None:
                if len(candidates):  # an empty batch is not the last one
                    return list(candidates)
        return []
