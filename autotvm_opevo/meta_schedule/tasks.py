"""The tasks of a network: its operators, and of each the search, the trials and the failures."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from math import inf
from typing import Any, NamedTuple

import tvm
from tvm.s_tir import Schedule
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.analysis import estimate_tir_flops
from tvm.s_tir.meta_schedule.arg_info import ArgInfo
from tvm.s_tir.meta_schedule.database import TuningRecord
from tvm.s_tir.meta_schedule.search_strategy import MeasureCandidate
from tvm.target import Target

from autotvm_opevo._utils.interrupts import interrupts_in_tvm
from autotvm_opevo._utils.timeouts import say_if_long
from autotvm_opevo.lowering.network import is_known, lower
from autotvm_opevo.meta_schedule.database import workload_key
from autotvm_opevo.meta_schedule.intrinsics import few_intrinsics
from autotvm_opevo.meta_schedule.measurer import Trial
from autotvm_opevo.meta_schedule.store import TrialStore
from autotvm_opevo.tuning import task_state
from autotvm_opevo.tuning.record_lines import UNMEASURED, seconds
from autotvm_opevo.tuning.task_scheduler import TaskProgress


def lower_and_extract(
    mod: tvm.IRModule, target: Target, verified: Mapping[tuple[str, ...], bool]
) -> tuple[tvm.IRModule, list[Any], list[str]]:
    """Lower a network, as TVM does it if a `TrialStore` knows that its outputs would differ; see
    `extract`.
    """
    lowered = lower(mod, target)
    tasks, untuned = extract(lowered, target)
    if not verified.get(key_of(target, tasks), True):
        lowered = lower(mod, target, as_imported=True)
        tasks, untuned = extract(lowered, target)
    return lowered, tasks, untuned


def key_of(target: Target, tasks: Iterable[Any]) -> tuple[str, ...]:
    """What identifies a network that was lowered: its target, and the workloads of its tasks."""
    return (str(target), *sorted(workload_key(task.dispatched[0]) for task in tasks))


def extract(lowered: tvm.IRModule, target: Target) -> tuple[list[Any], list[str]]:
    """The tasks of a lowered network, and the names of the operators that have none.

    Those whose shapes or loops are known only in a run, such as what follows ``nonzero``, cannot be
    tuned: a schedule is for one size.

    Examples
    --------
    >>> from autotvm_opevo.lowering.network import lower
    >>> from autotvm_opevo.networks.relax import operator
    >>> target = tvm.target.Target("llvm")
    >>> tasks, untuned = extract(lower(operator("matmul", [(8, 64), (64, 32)])[0], target), target)
    >>> len(tasks), untuned
    (1, [])
    """
    tasks, untuned = [], set()
    for task in ms.relax_integration.extract_tasks(lowered, target):
        if _is_static(task.dispatched[0]):
            tasks.append(task)
        else:
            untuned.add(kind_of(task))
    return tasks, sorted(untuned)


def _is_static(mod: tvm.IRModule) -> bool:
    """Whether all parameters are tensors of known shapes, and the loops of known extents."""
    shapes = [getattr(parameter.ty, "shape", None) for parameter in mod["main"].params]
    known = all(shape is not None and all(map(is_known, shape)) for shape in shapes)
    # the postprocessor would reject all candidates
    return known and bool(ms.postproc.DisallowDynamicLoop().apply(Schedule(mod)))


def kind_of(task: Any) -> str:
    """The operators of a task, without the numbers by which TVM tells functions apart.

    >>> from types import SimpleNamespace
    >>> kind_of(SimpleNamespace(task_name="fused_conv2d1_add2_relu11"))
    'fused_conv2d_add_relu'
    """
    return re.sub(r"(?<=[a-z])\d+(?=_|$)", "", str(task.task_name))


def task_name(task: Any) -> str:
    """The operators of a task, and the shapes of two tensors, such as an image and the weights."""
    tensors = ArgInfo.from_prim_func(task.dispatched[0]["main"])[:2]
    shapes = ("x".join(map(str, tensor.shape)) or "scalar" for tensor in tensors)
    return " ".join([kind_of(task), *shapes])


class TvmStrategy(NamedTuple):
    """One of TVM's strategies, or a user's, with a cost model, which all tasks share, and the
    largest number of trials, in all and in a batch.
    """

    strategy: Any
    cost_model: Any
    trials: int
    per_round: int


class TaskState(task_state.TaskState):
    """See `tuning.task_state.TaskState`; a subclass has its search, with the options of an
    `OpEvoStrategy` or a `TvmStrategy`. The key is the structural hash of the workload, `mod`.
    """

    def __init__(
        self, task: Any, target: Target, store: TrialStore, strategy: Any, rand_state: int
    ) -> None:
        self.mod, self.target, self._store = task.dispatched[0], target, store
        self._strategy, self._rand_state = strategy, rand_state
        progress = TaskProgress(flop=float(estimate_tir_flops(self.mod)), kind=kind_of(task))
        super().__init__(task, task_name(task), workload_key(self.mod), progress)
        self.learned_from: set[str] = set()  # the origins of what the search learned from last
        records = store.records(self)
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
    def best(self) -> TuningRecord | None:
        """See `tuning.task_state.TaskState`."""
        return self._store.best(self)

    def add(self, trial: Trial) -> None:
        """Count a trial of a candidate."""
        self.progress.pending -= 1
        self._count(trial.latency, trial.failure, trial.message)
        now = self.progress.trials - self._before
        self._seconds += trial.seconds
        # earlier calls took as long for each trial
        self.progress.seconds = self._seconds * self.progress.trials / now

    def choose_unmeasured(self, others: Sequence[Any]) -> TuningRecord | None:
        """A record of what would be measured first, if that is known; no measured one is slower."""
        return None

    def _context(self, strategy: Any = None) -> ms.TuneContext:
        with few_intrinsics(self.target):
            context = ms.TuneContext(
                self.mod,
                target=self.target,
                space_generator="post-order-apply",
                search_strategy=strategy,
                task_name=self.task.task_name,
                rand_state=self._rand_state,
            )
        return context.clone()


class OpEvoTask(TaskState):
    """A task of which OpEvo gets each result as it comes, and proposes while others run."""

    can_propose = True

    @cached_property
    def search(self) -> Any:
        """Made on first use: a small budget may never get to this task."""
        context = self._context()
        with say_if_long(f"generating the sketches of {self.name}"):
            sketches = context.generate_design_space()
            postprocs = list(context.space_generator.postprocs)
            name = str(self.task.task_name)
            search = self._strategy.search(name, self.mod, sketches, postprocs, self._rand_state)
            search.load(self._store.records(self))
        return search

    def add(self, trial: Trial) -> None:
        """See `TaskState`."""
        super().add(trial)
        self.search.tell([trial.candidate], [1.0 / trial.latency])

    def finish(self, trials: Sequence[Trial]) -> None:
        """See `TaskState`; it has them already."""

    def _propose(self, size: int, others: Sequence[OpEvoTask]) -> list[MeasureCandidate]:
        if self._strategy.can_transfer:
            known = [other for other in others if other is not self and other.latency < inf]
            sources = [other.search.source for other in known]
            self.learned_from = self._strategy.warm_start(self.search, self.target, sources)
        candidates: list[MeasureCandidate] = self.search.propose(size)
        return candidates

    def choose_unmeasured(self, others: Sequence[OpEvoTask]) -> TuningRecord | None:
        """See `TaskState`."""
        candidates = self._propose(1, others)
        return self._store.record(self, candidates[0], [UNMEASURED]) if candidates else None


class StrategyTask(TaskState):
    """A task whose search is a `TvmStrategy`: it needs all results of a batch before the next."""

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

    def finish(self, trials: Sequence[Trial]) -> None:
        """See `TaskState`; tells the strategy, and its cost model."""
        candidates, results = [t.candidate for t in trials], [t.result for t in trials]
        with interrupts_in_tvm(defer=True):
            self._tvm.notify_runner_results(candidates, results)
            built = [trial for trial in trials if not trial.failure.startswith("build")]
            if self._strategy.cost_model is not None and built:
                tried, ran = zip(*((trial.candidate, trial.result) for trial in built))
                self._strategy.cost_model.update(self._tvm, list(tried), list(ran))

    def _propose(self, size: int, others: Sequence[Any]) -> list[MeasureCandidate]:
        with interrupts_in_tvm(defer=True):
            while (candidates := self._tvm.generate_measure_candidates()) is not None:
                if len(candidates):  # an empty batch is not the last one
                    return list(candidates)
        return []
