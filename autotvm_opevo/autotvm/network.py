"""Tune a whole Relay network: one budget of trials and one log for all its tasks."""

from __future__ import annotations

import inspect
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import relay
from tvm.autotvm import record
from tvm.autotvm.measure import MeasureResult

from autotvm_opevo._utils.atomic_files import check_writable
from autotvm_opevo._utils.timeouts import run_compiler
from autotvm_opevo._utils.validation import as_integer, as_paths
from autotvm_opevo.autotvm.best_file import BestFile
from autotvm_opevo.autotvm.evaluation import evaluate_network
from autotvm_opevo.autotvm.extraction import Extraction, extract, without_tophub
from autotvm_opevo.autotvm.folding import fold
from autotvm_opevo.autotvm.history import read_history
from autotvm_opevo.autotvm.log import Record
from autotvm_opevo.autotvm.measurer import Measurer, default_measure_option
from autotvm_opevo.autotvm.runner import LocalRunner
from autotvm_opevo.autotvm.store import TrialStore
from autotvm_opevo.autotvm.targets import (
    THIS_MACHINE,
    as_target,
    check_device,
    measure_roofline,
    work,
)
from autotvm_opevo.autotvm.task_state import TaskState
from autotvm_opevo.autotvm.tuner import OpEvoTuner, SearchTuner, TunerFactory, describe_tuner
from autotvm_opevo.search.base import FIRST_BATCH
from autotvm_opevo.topology import Factorization
from autotvm_opevo.tuning.result import TuningResult
from autotvm_opevo.tuning.run import Budget, TuningRun
from autotvm_opevo.tuning.run_log import ExtentsKnown
from autotvm_opevo.tuning.task_scheduler import TaskScheduler, as_task_scheduler, round_size
from autotvm_opevo.tuning.workers import call_once


@without_tophub()
def tune_network(
    mod: tvm.IRModule | relay.Function,
    params: dict[str, tvm.nd.NDArray] | None,
    target: str | tvm.target.Target,
    log_file: str | PathLike[str],
    trials: int = 1000,
    measure_option: dict[str, Any] | None = None,
    time_limit: float | None = None,
    tuner: TunerFactory = OpEvoTuner,
    task_scheduler: str | TaskScheduler = "gradient",
    early_stopping: int | None = None,
    seed: int | None = None,
    evaluate: bool = True,
    transfer: bool = True,
    history: str | PathLike[str] | Iterable[str | PathLike[str]] = (),
) -> TuningResult:
    """Tune all operators of a network from one budget of trials, resuming from a log.

    However this function ends, the same call resumes with the remaining trials. All measurements
    are in the log, those of AutoTVM's own builder after each batch. No configuration is measured
    twice.

    Parameters
    ----------
    mod : tvm.IRModule or relay.Function
        The network.
    params : dict, optional
        Its weights, by name.
    target : str or tvm.target.Target
    log_file : str or path
        AutoTVM's log, ``NAME.json``; created if missing, and locked against other processes. Beside
        it, ``NAME.best.json`` gets the best record of each task, also of other networks in the log.
    trials : int
        Number of configurations to measure, those in the log included.
    measure_option : dict, optional
        From ``autotvm.measure_option``; `default_measure_option` by default. AutoTVM's own
        ``LocalRunner`` gives way to this package's, with its options.
    time_limit : float, optional
        Seconds for all trials and for re-measuring the best; the running batch may exceed it by
        seconds.
    tuner : callable
        Creates the tuner of a task: one of AutoTVM's tuner classes, or a function.
    task_scheduler : {"gradient", "equal", "round-robin"} or callable
        Chooses the task that gets the next trials: the one expected to reduce the network's latency
        most, all equally, or each in turn. See `tuning.task_scheduler.TaskScheduler` for what a
        function of your own returns.
    early_stopping : int, optional
        Stop tuning a task after this many consecutive trials without improvement; the others share
        its trials.
    seed : int, optional
        Of tuners that take one, and of the task scheduler.
    evaluate : bool
        Build the network untuned and tuned, compare their outputs, and time both. If the untuned
        one is faster, or the outputs differ, ``NAME.best.json`` has it until more is measured;
        without the evaluation, that is not known.
    transfer : bool
        Whether tasks of the same template learn from each other, from the history and, on a CPU,
        from the bundled tuning records. Only `OpEvoTuner` can.
    history : path, or iterable of paths
        Logs of other networks, devices or runs to learn from, besides what `log_file` has of other
        networks. They are only read; what they measured may be measured again.

    Returns
    -------
    TuningResult

    Raises
    ------
    ValueError
        If an argument is invalid, the network has nothing to tune, or this machine lacks the
        target's device.
    LogInUse
        If another process is writing the log.
    DevicePoolError
        If there are no devices.
    ForkServerError
        If worker processes cannot be started.
    RuntimeError
        If TVM cannot compile for the GPU here, or this machine runs the trials and has no compiler
        that links them, or cannot load what is built, as from a folder that is mounted noexec.
    OSError
        If the log or the temporary folder cannot be written, or its disk is full.
    KeyboardInterrupt
        After Ctrl-C, once the result is printed and all worker processes have ended.

    Examples
    --------
    >>> import tempfile
    >>> from autotvm_opevo.autotvm import tune_network
    >>> from autotvm_opevo.networks import relay as workloads
    >>> mod, params = workloads.operator("nn.dense", [(8, 64), (32, 64)])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     log = f"{folder}/dense.json"
    ...     tune_network(mod, params, "llvm", log, trials=4, evaluate=False).trials
    4
    """
    budget = Budget(trials, time_limit)
    target = as_target(target)
    if early_stopping is not None:
        early_stopping = as_integer("early_stopping", early_stopping)
    if seed is not None:
        seed = as_integer("seed", seed, at_least=0)
    task_scheduler = as_task_scheduler(task_scheduler)
    if not callable(tuner):
        raise ValueError(
            "tuner must be one of AutoTVM's tuner classes, or a function that creates a "
            f"task's tuner; {tuner!r} given"
        )
    make_tuner = partial(tuner)  # with the options of one that it is already
    # AutoTVM's draw from the global generator
    seeded = seed is not None and "seed" in inspect.signature(tuner).parameters
    history = as_paths(history)
    known = read_history(history, Path(log_file))

    measurer = Measurer(measure_option or default_measure_option(target))
    check_device(target, measurer.runner, measurer.compiles_here)

    mod = run_compiler(partial(fold, mod, params), "folding constants")

    check_writable(Path(tempfile.gettempdir()))  # for what is built
    with TrialStore(log_file) as store:
        network = run_compiler(partial(extract, mod, target), "extracting tasks")
        seeds = np.random.SeedSequence(seed).generate_state(len(network.tasks) + 1)
        states = [
            TaskState(
                task,
                partial(tuner, seed=int(own_seed)) if seeded else tuner,
                early_stopping,
                known,
                transfer,
            )
            for task, own_seed in zip(network.tasks, seeds[1:])
        ]
        kind, batch = make_tuner.func, measurer.batch
        may_search = not isinstance(kind, type) or issubclass(kind, SearchTuner)
        first = states[0].tuner if may_search else None
        if isinstance(first, SearchTuner) and first.can_transfer:
            own = {state.key for state in states}
            others = [records for task, records in store.by_task.items() if task not in own]
            known.add(chain.from_iterable(others))
        elif history:
            given = describe_tuner(make_tuner, None) if transfer else "transfer=False"
            raise ValueError(
                "history needs transfer=True and a tuner that learns from it, such as "
                f"OpEvoTuner; {given} given"
            )
        # others propose a whole batch, which has to fill the builders where one follows the other
        if isinstance(first, SearchTuner) and (measurer.builds_ahead or first.has_surrogate):
            batch = min(batch, FIRST_BATCH)
        run = NetworkRun(states, network, budget, batch, store)
        if isinstance(first, SearchTuner):
            # may refuse a task's knobs: now, not once other tasks are tuned
            _ = [state.tuner for state in states]

        learning: dict[str, Any] = {} if transfer else {"transfer": False}
        notes = []
        if network.left_out:
            notes.append(f"kept at default, without a template for this target: {network.left_out}")
        if known:
            learning["history"] = known.describe({task.name for task in network.tasks}, target)
            notes.append(f"learning from {learning['history']}")
        if evaluate and network.only_vm:
            notes.append(
                f"not compared with the untuned network: it has {network.only_vm}, which only "
                "TVM's VM can run"
            )
            evaluate = False
        description = describe_tuner(make_tuner, seed if seeded else None, **learning)
        run.announce(description, "log", notes)
        return run.run(
            lambda: measurer,
            task_scheduler,
            np.random.default_rng(seeds[0]),
            partial(evaluate_network, mod, target, run.best.path, measurer.runner)
            if evaluate
            else None,
        )


class NetworkRun(TuningRun):
    """The tasks of a network, measured by AutoTVM, and resumed here from the records of the store;
    see `TuningRun`.
    """

    store: TrialStore
    _tasks: Sequence[TaskState]
    _measurer: Measurer

    def __init__(
        self,
        tasks: Sequence[TaskState],
        network: Extraction,
        budget: Budget,
        batch: int,
        store: TrialStore,
    ) -> None:
        known = len(store.records)
        loaded, size = 0, round_size(known, budget.trials, len(tasks), batch)
        for task in tasks:
            loaded += task.resume(store.by_task[task.key], size, store.confirmed.get(task.key))
        self._unrelated = known - loaded
        self.best = BestFile(tasks, network.operators, store)
        super().__init__(tasks, network.operators, budget, batch, store)
        self.untuned = self.best.had_untuned

    def _measure_machine(self) -> None:
        """See `TuningRun`."""
        extents = {
            task.key: {
                name: knob.extent
                for name, knob in task.space.knobs.items()
                if isinstance(knob.whole, Factorization)
            }
            for task in self._tasks
        }
        self._run_log.write(ExtentsKnown(extents))
        if not isinstance(self._measurer.runner, LocalRunner):
            return
        target = self._tasks[0].task.target
        self._measure_bounds(
            partial(call_once, __package__, measure_roofline, str(target)),
            lambda task: work(task.task),
            partial(THIS_MACHINE.cannot_run, target),
        )

    def _use_confirmed(self, task: TaskState, best: Record, latency: float) -> str:
        """See `TuningRun`."""
        measured, result = best
        task.confirm((measured, MeasureResult((latency,), 0, result.all_cost, time.time())))
        return str(record.encode(*task.best))

    def write_best(self) -> None:
        """See `TuningRun`."""
        self.best.write(self.untuned)

    def result(self) -> TuningResult:
        """The result so far."""
        return replace(
            super().result(),
            best_file=self.best.path if self.best.path.exists() else None,
            rejected=self.store.rejected,
            unrelated=self._unrelated,
        )
