"""A whole Relax network: its tasks tuned from one budget into one work directory, the best schedules applied."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Sequence
from math import inf
from os import PathLike
from pathlib import Path
from typing import Any

import tvm
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.analysis import estimate_tir_flops

from autotvm_opevo._utils.atomic_files import Lock
from autotvm_opevo._utils.text import last_line, pluralize
from autotvm_opevo._utils.validation import as_integer
from autotvm_opevo.meta_schedule.builder import local_builder
from autotvm_opevo.meta_schedule.database import LOCK, load_database, records_of, repair, seconds
from autotvm_opevo.meta_schedule.evaluation import compare, lower_for_tuning
from autotvm_opevo.meta_schedule.interrupts import SigintGuard
from autotvm_opevo.meta_schedule.intrinsics import import_tensor_intrinsics
from autotvm_opevo.meta_schedule.measurer import Failure, FlushingBuilder, FlushingRunner, ProgressCallback, ResultFlusher
from autotvm_opevo.meta_schedule.strategy import OpEvoStrategy
from autotvm_opevo.meta_schedule.targets import as_target
from autotvm_opevo.tuning.journal import JOURNAL, Journal
from autotvm_opevo.tuning.progress import ProgressDisplay, Row
from autotvm_opevo.tuning.result import TuningResult
from autotvm_opevo.tuning.speedup import Speedup
from autotvm_opevo.tuning.task_scheduler import Operator, network_latency, shares

# A round has so many trials at most, as TVM's own; a strategy may want fewer.
_LONGEST = 64


def tune_network(
    mod: tvm.IRModule,
    params: dict[str, tvm.runtime.Tensor] | None,
    target: str | dict[str, Any] | tvm.target.Target,
    work_dir: str | PathLike[str],
    trials: int = 1000,
    *,
    strategy: Any = None,
    builder: Any = None,
    runner: Any = "local",
    task_scheduler: str = "gradient",
    cost_model: Any = "none",
    seed: int | None = None,
    evaluate: bool = True,
) -> TuningResult:
    """Tune all operators of a Relax network from one budget, and go on where a work directory ends.

    Whatever stops this function, the same call goes on with what is left of the trials: all batches that were finished are in the
    database, and, with `OpEvoStrategy`, none of it is measured again.

    Parameters
    ----------
    mod : tvm.IRModule
        The network, as one of Relax's frontends gives it.
    params : dict, optional
        Its weights.
    target : str, dict or tvm.target.Target
        A CPU without ``num-cores`` is taken for one with this machine's.
    work_dir : str or path
        MetaSchedule's folder; made if there is none. Nobody else can tune into it meanwhile.
    trials : int
        How many candidates to measure in all, those in the database included; with TVM's own strategies, the last round may take
        a few more.
    strategy : SearchStrategy or str, optional
        `OpEvoStrategy` unless given.
    builder, runner : optional
        MetaSchedule's; `local_builder` and a local runner unless given.
    task_scheduler : {"gradient", "round-robin"}
        TVM's own: who gets the next round.
    cost_model : optional
        Needed by TVM's evolutionary strategy alone: ``"xgb"``.
    seed : int, optional
        For all that is drawn.
    evaluate : bool
        Whether to compile the network before and after, compare the outputs and time both. Only on this machine: not where
        the runner is another's.

    Raises
    ------
    ValueError
        If an argument is not what it should be, or there is nothing to tune.
    LogInUse
        If another process has the work directory.
    KeyboardInterrupt
        After Ctrl-C, when the summary is printed.
    """
    start = time.monotonic()
    target = as_target(target)
    trials = as_integer("trials", trials)
    if seed is not None:
        seed = as_integer("seed", seed, at_least=0)
        if seed >= 2**31 - 1:
            raise ValueError(f"seed must be less than 2**31 - 1, which TVM takes; {seed} given")
    if task_scheduler not in ("gradient", "round-robin"):
        raise ValueError(f"task_scheduler must be gradient or round-robin; {task_scheduler!r} given")
    strategy = OpEvoStrategy() if strategy is None else strategy
    folder = Path(work_dir)
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"work_dir must be a folder of MetaSchedule's or a new one, {folder} is a file: name another")
    folder.mkdir(parents=True, exist_ok=True)
    lock = Lock(folder / LOCK)
    lock.acquire(folder)
    interrupts = SigintGuard()
    try:
        import_tensor_intrinsics()
        mod = lower_for_tuning(mod, params, target)
        tasks = ms.relax_integration.extract_tasks(mod, target)
        if not tasks:
            raise ValueError("mod must have an operator that can be tuned, it has none")
        repair(folder)
        database = load_database(folder)
        named = strategy if isinstance(strategy, str) else getattr(strategy, "description", type(strategy).__name__)
        session = _Session(tasks, target, database, folder, trials, start, named)
        session.announce()
        try:
            if session.left > 0:
                if isinstance(strategy, OpEvoStrategy):
                    strategy = strategy.share(session.left)
                # What TVM logs of every step goes to files below the work directory.
                logging.getLogger("tvm.s_tir.meta_schedule").setLevel(logging.WARNING)
                contexts, weights = ms.relax_integration.extracted_tasks_to_tune_contexts(
                    tasks, str(folder), strategy=strategy, seed=None if seed is None else seed + 1
                )
                runner = ms.Runner.create(runner) if isinstance(runner, str) else runner
                scheduler = ms.TaskScheduler.create(task_scheduler)
                take_results = ResultFlusher(scheduler, len(contexts), interrupts)
                with session.display, interrupts:
                    ms.tune.tune_tasks(
                        tasks=contexts,
                        task_weights=weights,
                        work_dir=str(folder),
                        max_trials_global=session.left,
                        max_trials_per_task=trials,
                        num_trials_per_iter=max(1, min(_LONGEST, trials // len(tasks))),
                        builder=FlushingBuilder(builder or local_builder(), take_results),
                        runner=FlushingRunner(runner, take_results),
                        database=database,
                        cost_model=cost_model,
                        measure_callbacks=[*ms.MeasureCallback.create("default"), ProgressCallback(session.watch)],
                        task_scheduler=scheduler,
                    )
                session.stopped = "trials" if session.left <= 0 else "exhausted"
            if evaluate and isinstance(runner, (str, ms.runner.LocalRunner)):
                session.compare(mod, database)
        except BaseException as error:
            if interrupts.noted and not isinstance(error, KeyboardInterrupt):
                error = KeyboardInterrupt()  # which TVM makes a RuntimeError of
            session.stopped = "interrupted" if isinstance(error, KeyboardInterrupt) else type(error).__name__
            session.display.say(str(session.report()))
            raise error
        return session.report()
    finally:
        lock.release()


class _Session:
    """One call of `tune_network`: what is known of each task."""

    def __init__(
        self,
        tasks: Sequence[Any],
        target: tvm.target.Target,
        database: Any,
        folder: Path,
        trials: int,
        start: float,
        strategy: str,
    ) -> None:
        self._names = [str(task.task_name) for task in tasks]
        self._operators = [Operator(int(task.weight), (i,)) for i, task in enumerate(tasks)]
        self._flop = [float(estimate_tir_flops(task.dispatched[0])) for task in tasks]
        self._trials = [0] * len(tasks)
        self._latencies = [inf] * len(tasks)
        self._failures: list[Counter[str]] = [Counter() for _ in tasks]
        self._errors: list[Counter[str]] = [Counter() for _ in tasks]
        for i, task in enumerate(tasks):
            for record in records_of(database, task.dispatched[0], target):
                latency = seconds(record.run_secs)
                self._count(i, latency, "failed" if latency == inf else "", "")
        self._target, self._folder, self._budget, self._start, self._strategy = target, folder, trials, start, strategy
        self._before = sum(self._trials)
        self._in_journal = [str(ms.database.Workload(task.dispatched[0]).as_json()[0]) for task in tasks]
        self._journal = Journal(folder / JOURNAL, anew=not len(database))
        self._comparison: Speedup | None = None
        self._problem = ""
        self._tuned = start
        self.stopped = "trials"
        self.display = ProgressDisplay(trials, self._before)

    @property
    def left(self) -> int:
        """Trials that were not spent yet."""
        return self._budget - sum(self._trials)

    def announce(self) -> None:
        known = f", {self._before} of them in the database" if self._before else ""
        self.display.say(f"{pluralize(len(self._names), 'task')}, {pluralize(self._budget, 'trial')}{known}; starting to measure")
        if self.left > 0:
            self._journal.begin(
                [(one.count, [self._in_journal[i] for i in one.tasks]) for one in self._operators], self._strategy
            )

    def watch(self, task: int, results: Sequence[tuple[float, Failure]]) -> None:
        for latency, (kind, message) in results:
            self._count(task, latency, kind, message)
            self._journal.write(task=self._in_journal[task], failure=kind, message=message)
        self._tuned = time.monotonic()
        self.display.show(self._rows(), task, network_latency(self._operators, self._latencies))

    def compare(self, mod: tvm.IRModule, database: Any) -> None:
        """The network before and after. What goes wrong here must not cost the user the report of hours of tuning."""
        try:
            self._comparison = compare(mod, self._target, database)
            self._journal.comparison(self._comparison)
        except Exception as error:
            self._problem = f"{type(error).__name__}: {last_line(str(error))}"

    def report(self) -> TuningResult:
        return TuningResult(
            rows=self._rows(),
            latency=network_latency(self._operators, self._latencies),
            trials=sum(self._trials),
            measured=sum(self._trials) - self._before,
            seconds=self._tuned - self._start,
            stopped=self.stopped,
            log_file=self._folder,
            comparison=self._comparison,
            problem=self._problem,
        )

    def _count(self, task: int, latency: float, kind: str, message: str) -> None:
        self._trials[task] += 1
        self._latencies[task] = min(self._latencies[task], latency)
        if kind:
            self._failures[task][kind] += 1
            self._errors[task][message or kind] += 1

    def _rows(self) -> list[Row]:
        parts = shares(self._operators, self._latencies)
        return [
            Row(
                name=name,
                trials=trials,
                latency=latency,
                gflops=flop / latency / 1e9,
                share=share,
                failures=", ".join(f"{kind} {count}" for kind, count in failures.most_common()),
                dominant_error=errors.most_common(1)[0][0] if errors and latency == inf else "",
            )
            for name, trials, latency, flop, share, failures, errors in zip(
                self._names, self._trials, self._latencies, self._flop, parts, self._failures, self._errors
            )
        ]
