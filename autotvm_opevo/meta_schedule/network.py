"""Tune a whole Relax network: one budget of trials and one work directory for all its tasks."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.meta_schedule.search_strategy import EvolutionarySearch
from tvm.s_tir.meta_schedule.utils import cpu_count, fork_seed

from autotvm_opevo._utils.atomic_files import Lock, check_writable
from autotvm_opevo._utils.timeouts import run_compiler
from autotvm_opevo._utils.validation import as_integer, as_seconds
from autotvm_opevo.lowering.entry import bind_params
from autotvm_opevo.lowering.network import check_shapes, lower_as_imported
from autotvm_opevo.meta_schedule.builder import LocalBuilder
from autotvm_opevo.meta_schedule.database import LOCK, records_of_others
from autotvm_opevo.meta_schedule.evaluation import computed_dtypes, evaluate_network
from autotvm_opevo.meta_schedule.extraction import key_of, lower_and_extract
from autotvm_opevo.meta_schedule.history import describe_history, sources_of, without_copies
from autotvm_opevo.meta_schedule.intrinsics import import_tensor_intrinsics
from autotvm_opevo.meta_schedule.measurer import Measurer
from autotvm_opevo.meta_schedule.run import NetworkRun
from autotvm_opevo.meta_schedule.runner import LocalRunner, has_device, is_local
from autotvm_opevo.meta_schedule.store import TrialStore
from autotvm_opevo.meta_schedule.strategy import OpEvoStrategy
from autotvm_opevo.meta_schedule.targets import as_target, check_local
from autotvm_opevo.meta_schedule.task_state import OpEvoTask, StrategyTask, TaskState, TvmStrategy
from autotvm_opevo.meta_schedule.verification import find_wrong_passes
from autotvm_opevo.meta_schedule.worker import WORKER_MODULE
from autotvm_opevo.tuning.file_formats import describe_file
from autotvm_opevo.tuning.logs import BEST_DATABASE
from autotvm_opevo.tuning.result import TuningResult
from autotvm_opevo.tuning.run import end_of_trials
from autotvm_opevo.tuning.task_scheduler import TaskScheduler, as_task_scheduler
from autotvm_opevo.tuning.workers import ForkServer

# Maximum number of trials in a round of a strategy of TVM's, as in TVM; it may propose fewer.
_MAX_ROUND = 64


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

    The network is lowered for speed first: batch normalizations folded into convolutions and matrix
    products; for a CPU, convolutions in NHWC, and by Winograd's algorithm where that pays; constant
    weights packed, for each schedule as its tiles read them; exp, tanh and erf in float32 as
    polynomials that can be vectorized. Inputs and outputs stay as they are, but for rounding: on
    this machine's CPU the first call compares them, in seconds, and leaves out what changes them,
    with a warning. `compile_network` makes use of the result. On a CPU an operator without a trial,
    since there are more operators than trials, gets the schedule that would have been measured
    first.

    However this function ends, the same call resumes with the trials that are left: all finished
    trials are in the database and, with `OpEvoStrategy`, no candidate is measured twice. At the end
    the best candidates are timed again, as far as 3% of the time allows; the database ``best`` in
    the work directory has the best of each task.

    Parameters
    ----------
    mod : tvm.IRModule
        The network, as imported by one of Relax's frontends: its function ``main``, or its only
        one. Operators whose shapes or loops are known only in a run, such as those after
        ``nonzero``, stay untuned.
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
        most, all equally, or each in turn.
    cost_model : optional
        By default none, but for ``strategy="evolutionary"``, TVM's own, which needs one, ``"xgb"``.
    time_limit : float, optional
        Seconds for all trials and for timing the best of them again; the running batch may exceed
        it by some seconds.
    seed : int, optional
        Of everything random, less than 2**31 - 1.
    transfer : bool
        Whether tasks whose sketches have the same structure learn from each other, from the history
        and, on a CPU, from what this package knows of common layers.
    history : path, or iterable of paths
        Work directories of other networks, devices and runs to learn from, besides what `work_dir`
        has of other networks and targets; nothing is written to them.
    evaluate : bool
        Build the network as imported and tuned, compare their outputs, and time both, on this
        machine or a device of the ``RPCRunner``; with other runners it is not. If the network as
        imported is faster, or the outputs differ, ``best`` says so, and `compile_network` compiles
        it as imported.

    Returns
    -------
    TuningResult

    Raises
    ------
    ValueError
        If an argument is invalid, weights do not fit the network, an input of it has a shape that
        is not known, or there is nothing to tune.
    LogInUse
        If another process is tuning into the work directory.
    ForkServerError
        If worker processes cannot be started.
    TimeoutError
        If TVM takes more than an hour to lower or to build the network.
    OSError
        If the work directory cannot be written, or its disk is full.
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
    start = time.monotonic()
    target = as_target(target)
    trials = as_integer("trials", trials)
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
    history = [history] if isinstance(history, (str, PathLike)) else list(history)
    if strategy is not None and (history or not transfer):
        raise ValueError(
            "transfer and history are for the default strategy, or arguments of an "
            f"OpEvoStrategy; {strategy!r} given"
        )
    if strategy is None:
        others = [path for path in history if not _is_own(path, folder)]
        strategy = OpEvoStrategy(transfer=transfer, history=others, seed=seed)
    time_limit = None if time_limit is None else as_seconds("time_limit", time_limit)
    evolutionary = isinstance(
        ms.SearchStrategy.create(strategy) if isinstance(strategy, str) else strategy,
        EvolutionarySearch,
    )
    if cost_model is None:
        cost_model = "xgb" if evolutionary else "none"
    mod, params = bind_params(mod, params), None
    check_shapes(mod)
    runner = (
        LocalRunner()
        if runner == "local"
        else ms.Runner.create(runner)
        if isinstance(runner, str)
        else runner
    )
    if is_local(runner) and target.kind.name == "llvm":
        check_local(target)
    if isinstance(builder, str) and builder != "local":
        builder = ms.Builder.create(builder)
    elif builder is None or builder == "local":
        builder = LocalBuilder(link=is_local(runner))
    ours = [one for one in (builder, runner) if isinstance(one, (LocalBuilder, LocalRunner))]
    folder.mkdir(parents=True, exist_ok=True)
    check_writable(folder, *folder.glob("database_*.json"))
    lock = Lock(folder / LOCK)
    lock.acquire(folder)
    try:
        if ours:
            ForkServer.start(WORKER_MODULE)  # imports TVM while this process extracts tasks
        store = TrialStore(folder)
        import_tensor_intrinsics()
        prepare = partial(
            run_compiler,
            partial(lower_and_extract, mod, target, store.wrong_passes),
            "lowering the network",
        )
        lowered, extracted, dynamic = prepare()
        if not extracted:
            unknown = (
                f": the shapes or loops of {', '.join(dynamic)} are known only in a run"
                if dynamic
                else ""
            )
            raise ValueError(f"mod must have an operator that can be tuned; it has none{unknown}")
        mods = [task.dispatched[0] for task in extracted]
        of_others = records_of_others(store.database, mods, target)
        network, has_trials = (
            key_of(target, extracted),
            len(store.database) - len(of_others) < trials,
        )
        if (
            has_trials
            and network not in store.wrong_passes
            and is_local(runner)
            and target.kind.name == "llvm"
        ):
            wrong = find_wrong_passes(mod, lowered, target)
            if wrong is not None:
                store.wrong_passes[network] = wrong
            if wrong:
                lowered, extracted, dynamic = prepare()
                store.wrong_passes[key_of(target, extracted)] = []
                mods = [task.dispatched[0] for task in extracted]
                of_others = records_of_others(store.database, mods, target)
        if isinstance(strategy, OpEvoStrategy) and has_trials:
            strategy = _with_others_of(folder, strategy, of_others)
        is_ours = isinstance(strategy, OpEvoStrategy)
        search = (
            strategy if is_ours else _tvm_strategy(strategy, cost_model, trials, len(extracted))
        )
        states = _task_states(extracted, target, store, search, seed)
        run = NetworkRun(states, target, store, trials, start)
        description = (
            strategy
            if isinstance(strategy, str)
            else getattr(strategy, "description", type(strategy).__name__)
        )
        run.announce(description, "database")
        if dynamic:
            run.display.write(
                "left untuned, since their shapes or loops are known only in a run: "
                f"{', '.join(dynamic)}"
            )
        if isinstance(strategy, OpEvoStrategy) and run.left > 0 and (history or strategy.history):
            run.display.write(f"learning from {describe_history(strategy.history)}")
        run.record_lowering(lowered)
        try:
            if run.left > 0:
                batch = strategy.batch_size if isinstance(strategy, OpEvoStrategy) else _MAX_ROUND
                with Measurer(builder, runner, target, batch) as measurer:
                    run.measure_machine(runner)
                    rng = np.random.default_rng(seed)
                    run.run(measurer, task_scheduler, rng, end_of_trials(start, time_limit), batch)
                if isinstance(strategy, OpEvoStrategy):
                    run.name_unused(
                        source.origin
                        for source in strategy.history
                        if not _is_own(source.origin, folder)
                    )
            run.choose_unmeasured()
            best = run.write_best()
            if evaluate and run.succeeded and has_device(runner):
                as_imported = partial(
                    run_compiler,
                    lambda: lower_as_imported(mod, params, target),
                    "lowering the network",
                )
                run.evaluate(
                    lambda: evaluate_network(
                        as_imported(), lowered, target, best, runner, computed_dtypes(mod)
                    )
                )
        except BaseException as error:
            with suppress(Exception):  # a full disk must not hide the error
                run.write_best()
            run.abort(error)
            raise
        return run.result()
    finally:
        for one in ours:
            one.close()
        lock.release()


def _is_own(path: str | PathLike[str], folder: Path) -> bool:
    """Whether a path is a run's work directory or the database of its best, whose records of this
    network count as its own.
    """
    return Path(path).resolve() in (folder.resolve(), (folder / BEST_DATABASE).resolve())


def _with_others_of(folder: Path, strategy: OpEvoStrategy, records: Sequence[Any]) -> Any:
    """The strategy, which learns from other networks in a run's work directory as well."""
    if not strategy.can_transfer:
        return strategy
    history = [source for source in strategy.history if not _is_own(source.origin, folder)]
    others = sources_of(records, str(folder))
    return strategy.with_history([*history, *without_copies(others, history)])


def _tvm_strategy(strategy: Any, cost_model: Any, trials: int, tasks: int) -> TvmStrategy:
    if isinstance(cost_model, str):
        cost_model = ms.CostModel.create(
            cost_model, num_tuning_cores=cpu_count(logical=False), tree_method="auto"
        )
    return TvmStrategy(strategy, cost_model, trials, max(1, min(_MAX_ROUND, trials // tasks)))


def _task_states(
    tasks: Sequence[Any],
    target: tvm.target.Target,
    store: TrialStore,
    strategy: Any,
    seed: int | None,
) -> list[TaskState]:
    """The state of each extracted task, with a search of its own."""
    kind = OpEvoTask if isinstance(strategy, OpEvoStrategy) else StrategyTask
    seeds = fork_seed(None if seed is None else seed + 1, n=len(tasks))
    return [
        kind(task, target, store, strategy, rand_state) for task, rand_state in zip(tasks, seeds)
    ]
