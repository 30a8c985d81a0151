"""A whole Relay network: its tasks tuned from one budget and into one log, the best configurations applied."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from math import inf
from os import PathLike
from typing import Any

import numpy as np
import tvm
from tvm import relay
from tvm.autotvm import record
from tvm.autotvm.measure import MeasureErrorNo
from tvm.autotvm.measure.measure import Runner
from tvm.autotvm.task import Task
from tvm.autotvm.task.space import ConfigEntity

from autotvm_opevo._utils.atomic_files import write_whole
from autotvm_opevo._utils.text import last_line, pluralize
from autotvm_opevo._utils.validation import as_integer
from autotvm_opevo.autotvm.evaluation import compare
from autotvm_opevo.autotvm.extraction import extract
from autotvm_opevo.autotvm.log import Log, Record
from autotvm_opevo.autotvm.measurer import Measurer, check_device, default_measure_option
from autotvm_opevo.autotvm.task_state import TaskState, TunerFactory, failure
from autotvm_opevo.autotvm.tuner import OpEvoTuner
from autotvm_opevo.tuning.journal import Journal
from autotvm_opevo.tuning.naming import describe_tuner, task_key, task_name
from autotvm_opevo.tuning.progress import ProgressDisplay, Row
from autotvm_opevo.tuning.result import TuningResult
from autotvm_opevo.tuning.speedup import Speedup
from autotvm_opevo.tuning.task_scheduler import TASK_SCHEDULERS, Operator, TaskScheduler, network_latency, round_size, shares


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
) -> TuningResult:
    """Tune all operators of a network from one budget, and go on where a log ends.

    Whatever stops this function, the same call goes on with what is left of the trials: all that was measured is in the log,
    none of it is measured again.

    Parameters
    ----------
    mod : tvm.IRModule or relay.Function
        The network.
    params : dict, optional
        Its weights.
    target : str or tvm.target.Target
    log_file : str or path
        AutoTVM's log, ``NAME.json``; made if there is none. Nobody else can tune into it meanwhile. The best record of each
        task goes to ``NAME.best.json`` beside it.
    trials : int
        How many configurations to measure in all, those in the log included.
    measure_option : dict, optional
        What ``autotvm.measure_option`` returns; `default_measure_option` unless given.
    time_limit : float, optional
        Seconds after which no more batch is begun.
    tuner : callable
        Makes the tuner of a task: a class of AutoTVM's tuners, or a function.
    task_scheduler : {"gradient", "equal", "round-robin"} or callable
        Who gets the next trials: the task that promises the largest drop of the network's latency, every task as many, or each
        in turn.
    early_stopping : int, optional
        A task leaves after so many trials in a row that were not its best; the others share what it leaves.
    seed : int, optional
        For tuners that take one, and for the task scheduler.
    evaluate : bool
        Whether to compile the network before and after, compare the outputs and measure both.

    Raises
    ------
    ValueError
        If an argument is not what it should be, there is nothing to tune, or this machine has no such device.
    LogInUse
        If another process has the log.
    DevicePoolError
        If there are no devices.
    OSError
        If the log cannot be written.
    KeyboardInterrupt
        After Ctrl-C, when the summary is printed and all children are gone.
    """
    start = time.monotonic()
    target = tvm.target.Target(target)
    trials = as_integer("trials", trials)
    if early_stopping is not None:
        early_stopping = as_integer("early_stopping", early_stopping)
    if seed is not None:
        seed = as_integer("seed", seed, at_least=0)
    if time_limit is not None and not time_limit > 0:
        raise ValueError(f"time_limit must be a positive number of seconds, {time_limit!r} given")
    if not callable(task_scheduler):
        if task_scheduler not in TASK_SCHEDULERS:
            raise ValueError(
                f"task_scheduler must be one of {', '.join(TASK_SCHEDULERS)}, or a function; {task_scheduler!r} given"
            )
        task_scheduler = TASK_SCHEDULERS[task_scheduler]
    if not callable(tuner):
        raise ValueError(f"tuner must be a class of AutoTVM's tuners, or a function that makes one of a task; {tuner!r} given")
    if isinstance(mod, relay.Function):
        mod = tvm.IRModule.from_expr(mod)
    mod, params = relay.transform.InferType()(mod), params or {}

    option = measure_option or default_measure_option(target)
    measurer = Measurer(option)
    check_device(target, option["runner"])

    with Log(log_file) as log:
        tasks, operators = extract(mod, params, target)
        seeds = np.random.SeedSequence(seed).generate_state(len(tasks) + 1)
        states = [TaskState(task, tuner, None if seed is None else int(s), early_stopping) for task, s in zip(tasks, seeds[1:])]
        session = _Session(
            states, operators, log, trials, measurer.batch, np.random.default_rng(seeds[0]), start, describe_tuner(tuner, seed)
        )
        try:
            session.announce()
            with measurer:
                session.run(measurer, task_scheduler, start + time_limit if time_limit is not None else inf)
            session.save_best()
            if evaluate and any(state.best for state in states):
                session.compare(mod, params, target, option["runner"])
        except BaseException as error:
            session.stopped = "interrupted" if isinstance(error, KeyboardInterrupt) else type(error).__name__
            with suppress(OSError):  # when the disk is full, that it is comes first
                session.save_best()
            session.display.say(str(session.report()))
            raise
        finally:
            for state in states:
                state.close()
        return session.report()


class _Session:
    """One call of `tune_network`: the tasks and the budget between them."""

    def __init__(
        self,
        states: Sequence[TaskState],
        operators: Sequence[Operator],
        log: Log,
        trials: int,
        batch: int,
        rng: np.random.Generator,
        start: float,
        tuner: str,
    ) -> None:
        self._tunings, self._operators, self._log, self._trials, self._rng = states, operators, log, trials, rng
        self._names = [task_name(state.task.name, state.task.args) for state in states]
        self.best_file = log.path.with_name(log.path.name.removesuffix(".json") + ".best.json")
        self.stopped = "trials"
        self._start = self._end = start
        self._tuner = tuner
        self._round_size = round_size(trials, len(states), batch)
        records = _by_task(log.records)
        mine = sum(state.load(records.get(_key(state.task), ()), self._round_size) for state in states)
        self._unrelated, self._before = len(log.records) - mine, self.trials
        self._comparison: Speedup | None = None
        self._problem = ""
        self.display = ProgressDisplay(trials)
        self._journal = Journal(f"{log.path}.journal", anew=not log.records)

    def announce(self) -> None:
        """Say what is to be done before worker processes start, which takes some seconds; to the journal, if it is anything."""
        known = f", {self.trials} of them in the log" if self.trials else ""
        self.display.say(
            f"{pluralize(len(self._tunings), 'task')}, {pluralize(self._trials, 'trial')}{known}; starting to measure"
        )
        if self.trials >= self._trials:
            return
        names = [_in_journal(state.task) for state in self._tunings]
        self._journal.begin([(one.count, [names[i] for i in one.tasks]) for one in self._operators], self._tuner)

    def run(self, measurer: Measurer, task_scheduler: TaskScheduler, deadline: float) -> None:
        """Spend the budget in rounds."""
        progress = [state.progress for state in self._tunings]

        def measure(task: Task, configs: list[ConfigEntity]) -> list[Record]:
            records = measurer(task, configs)
            self._log.append(records)
            self._note(records)
            return records

        limit = deadline - time.monotonic() if deadline < inf else None
        with ProgressDisplay(self._trials, self.trials, limit) as self.display:
            while (left := self._trials - self.trials) > 0:
                if not any(task.active for task in progress):
                    self.stopped = "exhausted"
                    break
                current = task_scheduler(progress, self._operators, left, self._rng)
                if not progress[current].active:
                    raise ValueError(f"task_scheduler must return an active task, {current} returned, which wants no more trials")
                state, end = self._tunings[current], self.trials + min(self._round_size, left)
                while self.trials < end and time.monotonic() < deadline:
                    if not state.measure_batch(min(measurer.batch, end - self.trials), measure):
                        break
                    self._end = time.monotonic()
                    self._show(current, end_of_round=False)
                state.end_round()
                self._show(current, end_of_round=True)
                if time.monotonic() >= deadline:
                    self.stopped = "time limit"
                    break

    @property
    def trials(self) -> int:
        """Measured so far, those in the log included."""
        return sum(state.progress.trials for state in self._tunings)

    def save_best(self) -> None:
        """The best record of each task, for any user of AutoTVM."""
        best = [state.best for state in self._tunings if state.best]
        if best:
            write_whole(self.best_file, ((record.encode(*pair) + "\n").encode() for pair in best))

    def _note(self, records: Iterable[Record]) -> None:
        """What the log does not say of failures."""
        for measured, result in records:
            if result.error_no != MeasureErrorNo.NO_ERROR:
                kind, message = failure(result)
                self._journal.write(task=_in_journal(measured.task), failure=kind, message=message)

    def compare(self, mod: tvm.IRModule, params: dict[str, tvm.nd.NDArray], target: tvm.target.Target, runner: Runner) -> None:
        """The network before and after. What goes wrong here must not cost the user the report of hours of tuning."""
        try:
            self._comparison = compare(mod, params, target, self.best_file, runner)
            self._journal.comparison(self._comparison)
        except Exception as error:
            self._problem = f"{type(error).__name__}: {last_line(str(error))}"

    def report(self) -> TuningResult:
        return TuningResult(
            rows=self._rows(),
            latency=network_latency(self._operators, self._latencies()),
            trials=self.trials,
            measured=self.trials - self._before,
            seconds=self._end - self._start,
            stopped=self.stopped,
            log_file=self._log.path,
            best_file=self.best_file,
            rejected=self._log.rejected,
            unrelated=self._unrelated,
            comparison=self._comparison,
            problem=self._problem,
        )

    def _show(self, current: int, end_of_round: bool) -> None:
        self.display.show(self._rows(), current, network_latency(self._operators, self._latencies()), end_of_round)

    def _latencies(self) -> list[float]:
        return [state.latency for state in self._tunings]

    def _rows(self) -> list[Row]:
        latencies = self._latencies()
        return [
            Row(
                name=name,
                trials=state.progress.trials,
                latency=latency,
                gflops=state.progress.flop / latency / 1e9,
                share=share,
                failures=", ".join(f"{kind} {count}" for kind, count in state.failures.most_common()),
                dominant_error=state.dominant_error,
            )
            for name, state, latency, share in zip(self._names, self._tunings, latencies, shares(self._operators, latencies))
        ]


def _in_journal(task: Task) -> str:
    return task_key(str(task.target), task.name, task.args)


def _key(task: Task) -> tuple[str, Any]:
    return str(task.target), task.workload


def _by_task(records: Iterable[Record]) -> dict[tuple[str, Any], list[Record]]:
    groups: dict[tuple[str, Any], list[Record]] = defaultdict(list)
    for measured, result in records:
        groups[str(measured.target), measured.task.workload].append((measured, result))
    return dict(groups)
