"""Tune a whole Relax network: one budget of trials and one work directory for all its tasks."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from math import inf
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.meta_schedule.database import TuningRecord
from tvm.s_tir.meta_schedule.runner import RPCRunner
from tvm.s_tir.meta_schedule.search_strategy import EvolutionarySearch
from tvm.s_tir.meta_schedule.utils import cpu_count, fork_seed

from autotvm_opevo._utils.atomic_files import Lock, check_writable
from autotvm_opevo._utils.text import pluralize
from autotvm_opevo._utils.timeouts import run_compiler, say_if_long
from autotvm_opevo._utils.validation import as_integer, as_paths
from autotvm_opevo.lowering.entry import bind_params
from autotvm_opevo.lowering.network import check_shapes
from autotvm_opevo.meta_schedule.database import LOCK, database_with
from autotvm_opevo.meta_schedule.evaluation import evaluate_network
from autotvm_opevo.meta_schedule.history import describe_history, sources_of
from autotvm_opevo.meta_schedule.local import LocalBuilder, LocalRunner, is_local
from autotvm_opevo.meta_schedule.measurer import Measurer, Trial
from autotvm_opevo.meta_schedule.store import TrialStore, remove_if_empty
from autotvm_opevo.meta_schedule.strategy import OpEvoStrategy
from autotvm_opevo.meta_schedule.targets import THIS_MACHINE, as_target, measure_roofline, work
from autotvm_opevo.meta_schedule.tasks import (
    OpEvoTask,
    StrategyTask,
    TaskState,
    TvmStrategy,
    key_of,
    lower_and_extract,
)
from autotvm_opevo.meta_schedule.verification import verifying
from autotvm_opevo.meta_schedule.worker import WORKER_MODULE
from autotvm_opevo.tuning.comparison import Comparison
from autotvm_opevo.tuning.logs import BEST_DATABASE, describe_file
from autotvm_opevo.tuning.result import TuningResult
from autotvm_opevo.tuning.run import Budget, TuningRun
from autotvm_opevo.tuning.task_scheduler import Operator, TaskScheduler, as_task_scheduler
from autotvm_opevo.tuning.workers import ForkServer, call_once

# Maximum number of trials in a round of a strategy of TVM's, as in TVM; it may propose fewer.
_MAX_ROUND = 64
# A task with a smaller share of the latency, all being at their bounds, begins with so few trials.
_SMALL_SHARE, _FEW = 0.01, 2


def tune_network(
    mod: tvm.IRModule,
    params: Any,
    target: str | dict[str, Any] | tvm.target.Target,
    work_dir: str | PathLike[str],
    trials: int = 1000,
    *,
    strategy: Any = None,
    builder: Any = "local",
    runner: Any = "local",
    task_scheduler: str | TaskScheduler = "gradient",
    cost_model: Any = None,
    time_limit: float | None = None,
    seed: int | None = None,
    transfer: bool = True,
    history: str | PathLike[str] | Iterable[str | PathLike[str]] = (),
    evaluate: bool = True,
) -> TuningResult:
    """Tune all operators of a Relax network from one budget of trials, resuming from a work
    directory.

    The network is lowered for speed first: batch normalizations are folded, convolutions for a CPU
    are converted to NHWC or to Winograd's algorithm, weights are packed, and exp, tanh and erf
    become polynomials. Inputs and outputs stay as they are, except for rounding. On this machine's
    CPU, the first call verifies that in seconds; a network that fails is lowered as TVM does it,
    with a warning. `compile_network` compiles the result. With fewer trials than operators, on a
    CPU, the others get the schedule of their first proposal.

    However this function ends, the same call resumes with the remaining trials. All finished trials
    are in the database, and with `OpEvoStrategy` no candidate is measured twice. At the end the
    best candidates are re-measured, as far as 3% of the time allows. The database ``best`` in the
    work directory has the best of each task.

    Parameters
    ----------
    mod : tvm.IRModule
        The network, as imported by one of Relax's frontends: its function ``main``, or its only
        one. Operators whose shapes or loops are known only in a run, such as those after
        ``nonzero``, keep their default.
    params : dict or list, optional
        Its weights, by name, or as Relax's frontends return them; see `compile_network`.
    target : str, dict or tvm.target.Target
        A CPU without ``num-cores`` gets the number of threads in which TVM runs kernels in this
        process.
    work_dir : str or path
        MetaSchedule's work directory; created if missing, and locked against other processes.
    trials : int
        Number of candidates to measure, those in the database included; TVM's own strategies may
        exceed it in the last round.
    strategy : SearchStrategy or str, optional
        `OpEvoStrategy` by default. `transfer` and `history` are for the default: give them to an
        `OpEvoStrategy` of your own.
    builder, runner : optional
        MetaSchedule's; ``"local"``, the default, is this package's `LocalBuilder` and
        `LocalRunner`.
    task_scheduler : {"gradient", "equal", "round-robin"} or callable
        Chooses the task that gets the next trials: the one expected to reduce the network's latency
        most, all equally, or each in turn. See `tuning.task_scheduler.TaskScheduler` for what a
        function of your own returns.
    cost_model : optional
        By default none, but for ``strategy="evolutionary"``, TVM's own, which needs one, ``"xgb"``.
    time_limit : float, optional
        Seconds for all trials and for re-measuring the best; the running batch may exceed it by
        seconds.
    seed : int, optional
        Of everything random, less than 2**31 - 1.
    transfer : bool
        Whether tasks whose sketches have the same structure learn from each other, from the history
        and, on a CPU, from the bundled tuning records.
    history : path, or iterable of paths
        Work directories of other networks, devices and runs to learn from, besides what `work_dir`
        has of other networks and targets; nothing is written to them.
    evaluate : bool
        Build the network as imported and tuned, compare their outputs, and time both, on this
        machine or a device of the ``RPCRunner``; with other runners it is not. If the network as
        imported is faster, or the outputs differ, ``best`` says so, and `compile_network` compiles
        it as imported.

    Raises
    ------
    ValueError
        If an argument is invalid, weights do not fit the network, an input of it has a shape that
        is not known, there is nothing to tune, or this machine lacks the target's device.
    LogInUse
        If another process is tuning into the work directory.
    ForkServerError
        If worker processes cannot be started.
    RuntimeError
        If this machine runs the trials and has no compiler that links them, or no compiler for the
        GPU, or cannot load what is built, as from a folder that is mounted noexec; or if no remote
        device answers any more.
    TimeoutError
        If TVM takes more than an hour to lower or to build the network.
    OSError
        If the work directory or the temporary folder cannot be written, or its disk is full.
    KeyboardInterrupt
        After Ctrl-C, once the result is printed.

    Examples
    --------
    >>> import tempfile
    >>> from autotvm_opevo.meta_schedule import tune_network
    >>> from autotvm_opevo.networks import relax as workloads
    >>> mod, params = workloads.operator("matmul", [(8, 64), (64, 32)])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tune_network(mod, params, "llvm", folder, trials=4, evaluate=False).trials
    4
    """
    budget = Budget(trials, time_limit)
    target = as_target(target)
    if seed is not None:
        seed = as_integer("seed", seed, at_least=0)
        if seed >= 2**31 - 1:
            raise ValueError(f"seed must be less than 2**31 - 1, TVM's limit; {seed} given")
    task_scheduler = as_task_scheduler(task_scheduler)
    folder = Path(work_dir)
    if folder.exists() and not folder.is_dir():
        raise ValueError(
            "work_dir must be a work directory of MetaSchedule or a new one: "
            f"{describe_file(folder)}"
        )
    history = as_paths(history)
    if strategy is not None and (history or not transfer):
        raise ValueError(
            "transfer and history are for the default strategy, or arguments of an "
            f"OpEvoStrategy; {strategy!r} given"
        )
    if strategy is None:
        elsewhere = [path for path in history if not _is_own(path, folder)]
        strategy = OpEvoStrategy(transfer=transfer, history=elsewhere, seed=seed)
    evolutionary = isinstance(
        ms.SearchStrategy.create(strategy) if isinstance(strategy, str) else strategy,
        EvolutionarySearch,
    )
    if cost_model is None:
        cost_model = "xgb" if evolutionary else "none"
    mod = bind_params(mod, params)
    check_shapes(mod)
    if runner == "local":
        runner = LocalRunner()
    elif isinstance(runner, str):
        runner = ms.Runner.create(runner)
    is_on_this_cpu = is_local(runner) and target.kind.name == "llvm"
    if is_local(runner):
        THIS_MACHINE.check(target)
    if builder is None or builder == "local":
        builder = LocalBuilder()
    elif isinstance(builder, str):
        builder = ms.Builder.create(builder)
    if isinstance(builder, (LocalBuilder, ms.builder.LocalBuilder)):
        THIS_MACHINE.check_compiler(target)
    ours = [stage for stage in (builder, runner) if isinstance(stage, (LocalBuilder, LocalRunner))]
    is_new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    check_writable(folder, *folder.glob("database_*.json"))
    check_writable(Path(tempfile.gettempdir()))  # for what is built
    lock = Lock(folder / LOCK)
    lock.acquire(folder)
    try:
        if ours:
            ForkServer.start(WORKER_MODULE)  # imports TVM while this process extracts tasks
        store = TrialStore(folder)
        lowered, tasks, dynamic = _lower(mod, target, store, budget.trials, is_on_this_cpu)
        network = key_of(target, tasks)
        others = store.others(network)
        has_trials = len(store.database) - len(others) < budget.trials
        notes, origins = [], []
        if dynamic:
            why = "since their shapes or loops are known only in a run"
            notes.append(f"kept at default, {why}: {', '.join(dynamic)}")
        kind: type[TaskState]
        if isinstance(strategy, OpEvoStrategy):
            kind, batch = OpEvoTask, strategy.batch_size
            sources = [source for source in strategy.history if not _is_own(source.origin, folder)]
            origins = [source.origin for source in sources]
            if has_trials and strategy.can_transfer:
                if others:
                    with say_if_long("reading the trials of other networks and targets"):
                        sources += sources_of(others, str(folder))
                strategy = strategy.with_history(sources)
            if has_trials and (history or strategy.history):
                notes.append(f"learning from {describe_history(strategy.history)}")
            description = strategy.description
        else:
            kind, batch = StrategyTask, _MAX_ROUND
            given = getattr(strategy, "description", type(strategy).__name__)
            description = strategy if isinstance(strategy, str) else given
            if isinstance(cost_model, str):
                cost_model = ms.CostModel.create(
                    cost_model, num_tuning_cores=cpu_count(logical=False), tree_method="auto"
                )
            per_round = max(1, min(_MAX_ROUND, budget.trials // len(tasks)))
            strategy = TvmStrategy(strategy, cost_model, budget.trials, per_round)
        seeds = fork_seed(None if seed is None else seed + 1, n=len(tasks))
        states = [kind(task, target, store, strategy, s) for task, s in zip(tasks, seeds)]
        if not any(state.progress.trials for state in states):
            known = set[str]().union(*map(store.other_targets, states))
            if known:  # most often with another number of cores
                those = ", ".join(sorted(known))
                notes.append(f"trials in the database do not count, they are for {those}")
        run = NetworkRun(states, network, budget, batch, store, origins)
        run.announce(description, "database", notes)

        def compare() -> Comparison:
            best = database_with(state.best for state in states)
            return evaluate_network(mod, lowered, target, best, runner)

        return run.run(
            partial(Measurer, builder, runner, target, batch),
            task_scheduler,
            np.random.default_rng(seed),
            compare if evaluate and (is_local(runner) or isinstance(runner, RPCRunner)) else None,
        )
    finally:
        with ExitStack() as at_the_end:  # all of it, the last first, whatever fails
            if is_new:
                at_the_end.callback(remove_if_empty, folder)
            at_the_end.callback(lock.release)
            for stage in ours:
                at_the_end.callback(stage.close)


def _is_own(path: str | PathLike[str], folder: Path) -> bool:
    """Whether a path is a run's work directory or the database of its best."""
    return Path(path).resolve() in (folder.resolve(), (folder / BEST_DATABASE).resolve())


def _lower(
    mod: tvm.IRModule, target: tvm.target.Target, store: TrialStore, trials: int, verify: bool
) -> tuple[tvm.IRModule, list[Any], list[str]]:
    """Lower a network, as TVM does it if its outputs would differ, which `verify` finds out unless
    that was done before, or no trials are left. Returns the lowered network, its tasks, and the
    operators that cannot be tuned.
    """

    def lower() -> tuple[tvm.IRModule, list[Any], list[str]]:
        return run_compiler(
            partial(lower_and_extract, mod, target, store.verified), "lowering the network"
        )

    with ExitStack() as stack:
        keeps_outputs = None
        # A new database has trials to make: the networks run while this process lowers.
        if verify and not len(store.database) and not store.verified:
            keeps_outputs = stack.enter_context(verifying(mod, target))
        lowered, tasks, dynamic = lower()
        if not tasks:
            unknown = ", ".join(dynamic)
            why = f": the shapes or loops of {unknown} are known only in a run" if dynamic else ""
            raise ValueError(f"mod must have an operator that can be tuned; it has none{why}")
        network = key_of(target, tasks)
        has_trials = len(store.database) - len(store.others(network)) < trials
        if verify and has_trials and network not in store.verified:
            if keeps_outputs is None:
                keeps_outputs = stack.enter_context(verifying(mod, target))
            keeps = keeps_outputs()
            if keeps is not None:
                store.verified[network] = keeps
            if keeps is False:
                lowered, tasks, dynamic = lower()
                store.verified.setdefault(key_of(target, tasks), True)
                store.write_best()  # or who compiles after a kill would get what is wrong
    return lowered, tasks, dynamic


class NetworkRun(TuningRun):
    """The tasks of a network, given its key, measured by MetaSchedule; see `TuningRun`. `origins`
    are of the history, to say which of them taught nothing.
    """

    store: TrialStore
    _tasks: Sequence[TaskState]
    _measurer: Measurer

    def __init__(
        self,
        tasks: Sequence[TaskState],
        network: tuple[str, ...],
        budget: Budget,
        batch: int,
        store: TrialStore,
        origins: Sequence[str],
    ) -> None:
        self._target, self._network, self._origins = tasks[0].target, network, origins
        operators = [Operator(int(task.task.weight), (i,)) for i, task in enumerate(tasks)]
        super().__init__(tasks, operators, budget, batch, store)
        self.untuned = self._network in store.untuned

    def _measure_machine(self) -> None:
        """See `TuningRun`."""
        if not isinstance(self._measurer.runner, LocalRunner):
            return
        self._measure_bounds(
            partial(call_once, WORKER_MODULE, measure_roofline, self._target),
            lambda task: work(task.mod),
            partial(THIS_MACHINE.cannot_run, self._target),
        )
        bounds = [o.count * task.bound for o, task in zip(self._operators, self._tasks)]
        for task, bound in zip(self._tasks, bounds):
            is_known = not task.progress.flop or work(task.mod)[0] > 0
            if is_known and bound < _SMALL_SHARE * sum(bounds):
                task.progress.first_round = _FEW
                task.progress.kind = task.key  # others do not wait for what it finds

    def _use_confirmed(self, task: TaskState, best: Trial | TuningRecord, latency: float) -> str:
        """See `TuningRun`."""
        if isinstance(best, Trial):
            best = self.store.record(task, best.candidate, [latency])
        self.store.set_best(best)
        task.confirmed(latency)
        return ""

    def _conclude(self) -> None:
        """Say from which histories no task learned; choose a schedule for each operator without a
        trial, since on a CPU it would be a loop nest of scalars.
        """
        learned_from = set().union(*(task.learned_from for task in self._tasks))
        for origin in dict.fromkeys(self._origins):
            if self.trials > self._resumed and origin not in learned_from:
                self.display.write(
                    f"nothing was learned from {origin}: its tasks have other structures, or "
                    "others were more similar"
                )
        missing = [t for t in self._tasks if t.progress.active and not t.progress.trials]
        if not missing or not self.succeeded or self._target.kind.name != "llvm":
            return
        with self.phase("searching"), say_if_long("choosing schedules without a trial"):
            chosen = [task.choose_unmeasured(self._tasks) for task in missing]
        records = [record for record in chosen if record is not None]
        for record in records:
            self.store.set_best(record)
        if records:
            self.display.write(
                f"{pluralize(len(records), 'operator')} without a trial: the schedule is what "
                "would have been measured first"
            )

    def write_best(self) -> None:
        """See `TuningRun`; without records of a network whose outputs differ, but for those that
        another network had before this call.
        """
        is_wrong = self._comparison is not None and not self._comparison.outputs_match
        self.store.untuned.discard(self._network)
        if self.untuned:
            self.store.untuned.add(self._network)
        left_out = set()
        for task in self._tasks if is_wrong else ():
            _, before = self._before.get(task.key, (inf, task.best))
            if before is not None and self._is_shared(task):
                self.store.set_best(before)
            else:
                left_out.add((task.key, str(self._target)))
        self.store.write_best(left_out)

    def _is_shared(self, task: TaskState) -> bool:
        """Whether another network of the work directory has a task, too."""
        own = {task.key for task in self._tasks}
        networks = [set[str]().union(*network) for network in self.store.run_log.runs.networks]
        return any(task.key in keys for keys in networks if keys != own)

    def result(self) -> TuningResult:
        """The result so far."""
        folder = self.store.path / BEST_DATABASE
        return replace(super().result(), best_file=folder if folder.exists() else None)
