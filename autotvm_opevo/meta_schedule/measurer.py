"""MetaSchedule's builders and runners, for the tasks of a network."""

from __future__ import annotations

import shutil
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

import tvm
from tvm.s_tir.meta_schedule.builder import BuilderInput, BuilderResult
from tvm.s_tir.meta_schedule.runner import RPCRunner, RunnerInput, RunnerResult
from tvm.s_tir.meta_schedule.search_strategy import MeasureCandidate

from autotvm_opevo._utils.text import last_line
from autotvm_opevo.meta_schedule.builder import LocalBuilder
from autotvm_opevo.meta_schedule.database import seconds, workload_key
from autotvm_opevo.meta_schedule.runner import LocalRunner
from autotvm_opevo.meta_schedule.targets import device_type
from autotvm_opevo.tuning import measurer
from autotvm_opevo.tuning.measurer import Finalist


@dataclass(frozen=True)
class Trial:
    """A candidate that was measured.

    Attributes
    ----------
    candidate : MeasureCandidate
    result : RunnerResult
        Its latencies, or an error.
    failure : str
        Kind of the error; empty for a success.
    seconds : float
        That it took to build and to run it.
    """

    candidate: MeasureCandidate
    result: RunnerResult
    failure: str
    seconds: float

    @property
    def latency(self) -> float:
        """In seconds; infinite after a failure."""
        return seconds(self.result.run_secs)

    @property
    def message(self) -> str:
        """The last line of the error; empty for a success."""
        return last_line(str(self.result.error_msg))[:300] if self.failure else ""


# Candidates that are proposed at a time, for each builder or device: with more, a search proposes
# less often, for which runs wait, and knows less.
_AHEAD = 2


class Measurer(measurer.Measurer):
    """See `tuning.measurer.Measurer`; candidates are MetaSchedule's, and trials are `Trial`.

    Parameters
    ----------
    builder, runner
        MetaSchedule's. With this package's builder, and its runner or an ``RPCRunner``, what runs
        next is built meanwhile; others measure one batch after the other.
    target : tvm.target.Target
    batch : int
        Number of candidates that are proposed at a time, at most.
    """

    def __init__(self, builder: Any, runner: Any, target: tvm.target.Target, batch: int) -> None:
        self.builder, self.runner, self._target = builder, runner, target
        self._builds_ahead = ahead = isinstance(builder, LocalBuilder) and isinstance(
            runner, (LocalRunner, RPCRunner)
        )
        builds = builder.max_workers if ahead else batch
        devices = (
            runner.rpc_config.count_num_servers(allow_missing=True)
            if ahead and isinstance(runner, RPCRunner)
            else 1
        )
        super().__init__(
            min(batch, _AHEAD * max(builds, devices)),
            builds,
            max(1, devices),
            builder.workers if ahead else None,
        )

    def __exit__(self, *_: object) -> None:
        self._close(self.runner.interrupt if isinstance(self.runner, LocalRunner) else lambda: None)

    def _build(self, candidates: Sequence[MeasureCandidate]) -> list[BuilderResult]:
        if isinstance(self.builder, LocalBuilder):
            builds = [
                self.builder.start(candidate.sch.mod, self._target) for candidate in candidates
            ]
            return [self.builder.result(build)[0] for build in builds]
        inputs = [BuilderInput(candidate.sch.mod, self._target) for candidate in candidates]
        with interrupts_in_tvm():
            return list(self.builder.build(inputs))

    def retime(self, finalist: Finalist) -> float:
        """See `tuning.measurer.Measurer`."""
        return seconds(self._run_on_device(finalist.trial.candidate, finalist.file).run_secs)

    def restart(self) -> None:
        """See `tuning.measurer.Measurer`; every trial on a remote device has a new process."""
        if isinstance(self.runner, LocalRunner) and self._is_cpu:
            self.runner.close()

    @property
    def _is_cpu(self) -> bool:
        return bool(device_type(self._target) == "cpu")

    def submit(self, task: Any, candidates: Sequence[MeasureCandidate]) -> list[Future[Trial]]:
        """See `tuning.measurer.Measurer`."""
        key = workload_key(task.dispatched[0])
        if not self._builds_ahead:
            return [measurer.measured(trial) for trial in self._measure(key, candidates)]
        on_this_cpu = isinstance(self.runner, LocalRunner) and self._is_cpu
        builds = [self.builder.start(candidate.sch.mod, self._target) for candidate in candidates]
        return [
            self._run_when_built(build, partial(self._run, key, candidate, build), on_this_cpu)
            for candidate, build in zip(candidates, builds)
        ]

    def _run(
        self,
        task: str,
        candidate: MeasureCandidate,
        build: Future[Any],
        on_device: AbstractContextManager[None],
    ) -> Trial:
        """Run what was built; returns the trial."""
        built, spent = self.builder.result(build)
        if built.error_msg:
            return _trial(candidate, built, None, spent)
        with on_device:
            start = time.monotonic()
            result = self._run_on_device(candidate, str(built.artifact_path))
            spent += time.monotonic() - start
        return self._keep(task, _trial(candidate, built, result, spent), built)

    def _keep(self, task: str, trial: Trial, built: BuilderResult) -> Trial:
        """Keep what was built if it is one of the best, and delete the builder's, which has a
        folder of its own.
        """
        if built.artifact_path:
            self.finalists.add(task, trial, built, str(built.artifact_path), trial.latency)
            shutil.rmtree(Path(str(built.artifact_path)).parent, ignore_errors=True)
        return trial

    def _run_on_device(self, candidate: MeasureCandidate, artifact: str) -> RunnerResult:
        kind = device_type(self._target)
        # not by TVM, which would make other errors of its own
        if isinstance(self.runner, LocalRunner):
            return RunnerResult(*self.runner.run_alone(artifact, kind, candidate.args_info))
        with interrupts_in_tvm():
            (future,) = self.runner.run([RunnerInput(artifact, kind, candidate.args_info)])
            return future.result()

    def _measure(self, key: str, candidates: Sequence[MeasureCandidate]) -> list[Trial]:
        """Build and run a batch, with a builder or runner that is not this package's."""
        start, kind = time.monotonic(), device_type(self._target)
        builds = self._build(candidates)
        inputs = [
            RunnerInput(str(built.artifact_path), kind, candidate.args_info)
            for built, candidate in zip(builds, candidates)
            if not built.error_msg
        ]
        with interrupts_in_tvm():
            ran = iter([future.result() for future in self.runner.run(inputs)] if inputs else [])
        results = [None if built.error_msg else next(ran) for built in builds]
        each = (time.monotonic() - start) / len(candidates)
        return [
            self._keep(key, _trial(candidate, built, result, each), built)
            for candidate, built, result in zip(candidates, builds, results)
        ]


def _trial(
    candidate: MeasureCandidate, built: BuilderResult, ran: RunnerResult | None, spent: float
) -> Trial:
    result = RunnerResult(None, built.error_msg) if ran is None else ran
    if seconds(result.run_secs) < inf:
        return Trial(candidate, result, "", spent)
    kind = "build" if ran is None else "run"
    return Trial(
        candidate,
        result,
        f"{kind} timeout" if "Timeout, killed" in str(result.error_msg) else kind,
        spent,
    )


@contextmanager
def interrupts_in_tvm(defer: bool = False) -> Iterator[None]:
    """Raise `KeyboardInterrupt` at the end, whatever TVM made of it.

    From Python that C++ code calls, TVM makes another error of it; from a callback within a
    callback it crashes, unless it is deferred to the end. Does nothing outside the main thread, or
    where another handler for SIGINT is installed.
    """
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    interrupted = False

    def handle(number: int, frame: object) -> None:
        nonlocal interrupted
        interrupted = True
        if not defer:
            raise KeyboardInterrupt

    signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if interrupted:
            raise KeyboardInterrupt
