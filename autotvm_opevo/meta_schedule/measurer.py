"""MetaSchedule's builders and runners, for the tasks of a network."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Any

import tvm
from tvm.s_tir.meta_schedule.builder import BuilderInput, BuilderResult
from tvm.s_tir.meta_schedule.runner import RPCRunner, RunnerInput, RunnerResult
from tvm.s_tir.meta_schedule.search_strategy import MeasureCandidate
from tvm.support import cc

from autotvm_opevo._utils.interrupts import interrupts_in_tvm
from autotvm_opevo._utils.text import last_line
from autotvm_opevo.meta_schedule.database import workload_key
from autotvm_opevo.meta_schedule.local import LocalBuilder, LocalRunner, count_devices, is_local
from autotvm_opevo.meta_schedule.targets import device_type
from autotvm_opevo.tuning import measurer
from autotvm_opevo.tuning.measurer import Finalist
from autotvm_opevo.tuning.programs import REQUEST_TIMEOUT, check_linker
from autotvm_opevo.tuning.record_lines import seconds
from autotvm_opevo.tuning.workers import kill_tvm_pool, stop_tvm_pool


@dataclass(frozen=True)
class Trial:
    """A candidate that was measured.

    Attributes
    ----------
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
        if not self.failure:
            return ""
        return last_line(str(self.result.error_msg or "no possible time was measured"))[:300]


# Candidates that are proposed at a time, for each builder or device: with more, a search proposes
# less often, for which runs wait, and knows less.
_AHEAD = 2
# What builders and runners say of what took too long.
_TIMEOUT = "Timeout, killed"
# And that of a device, or a tracker, that does not answer.
_NO_ANSWER = _TIMEOUT, "Failed to connect to server", "Cannot request"


class Measurer(measurer.Measurer):
    """See `tuning.measurer.Measurer`; candidates, builder and runner are MetaSchedule's, and trials
    are `Trial`. At most `batch` candidates are proposed at a time.

    With this package's builder, and its runner or an ``RPCRunner``, what runs next is built
    meanwhile; others measure one batch after the other.

    A trial waits some minutes for a remote device. If none answers meanwhile, it raises a
    `RuntimeError`: all that follow would fail, too.
    """

    def __init__(self, builder: Any, runner: Any, target: tvm.target.Target, batch: int) -> None:
        self.builder, self.runner, self._target = builder, runner, target
        self._builds_ahead = ahead = isinstance(builder, LocalBuilder) and isinstance(
            runner, (LocalRunner, RPCRunner)
        )
        self._link = is_local(runner)  # which would do it itself, while nothing is built
        self._on_this_cpu = isinstance(runner, LocalRunner) and target.kind.name == "llvm"
        builds, devices = builder.max_workers if ahead else batch, 1
        if ahead and isinstance(runner, RPCRunner):
            devices = max(1, count_devices(runner.rpc_config))
        if isinstance(runner, RPCRunner):
            session = runner.rpc_config.session_timeout_sec
            # or TVM would wait for ever for a device that has left, or cannot be reached any more
            if session and runner.pool._timeout is None:
                runner.pool._timeout = session + REQUEST_TIMEOUT
        self._answered = -inf  # when a remote device did
        pool = builder.workers if ahead else None
        super().__init__(min(batch, _AHEAD * max(builds, devices)), builds, devices, pool)

    def __enter__(self) -> Measurer:
        if self._link:
            check_linker(cc)
        return self

    def __exit__(self, *_: object) -> None:
        if isinstance(self.runner, RPCRunner):
            self._close(partial(kill_tvm_pool, self.runner.pool))
            stop_tvm_pool(self.runner.pool)
        elif isinstance(self.runner, LocalRunner):
            self._close(self.runner.interrupt)
            self.runner.close()  # the device's memory is for the networks now
        else:
            self._close(lambda: None)

    def retime(self, finalist: Finalist) -> float:
        """See `tuning.measurer.Measurer`."""
        return seconds(self._run_on_device(finalist.trial.candidate, finalist.file).run_secs)

    def restart(self) -> None:
        """See `tuning.measurer.Measurer`; every trial on a remote device has a new process."""
        if self._on_this_cpu:
            self.runner.close()

    def submit(self, task: Any, candidates: Sequence[MeasureCandidate]) -> list[Future[Trial]]:
        """See `tuning.measurer.Measurer`."""
        key = workload_key(task.dispatched[0])
        if not self._builds_ahead:
            return [measurer.measured(trial) for trial in self._measure(key, candidates)]
        builds = [self.builder.start(c.sch.mod, self._target, self._link) for c in candidates]
        return [
            self._run_when_built(build, partial(self._run, key, candidate, build))
            for candidate, build in zip(candidates, builds)
        ]

    def _run(self, task: str, candidate: MeasureCandidate, build: Future[Any]) -> Trial:
        """Run what was built; returns the trial."""
        built, spent = self.builder.result(build)
        if built.error_msg:
            return self._keep(task, candidate, built, None, spent)
        with self._on_device(self._on_this_cpu):
            start = time.monotonic()
            result = self._run_on_device(candidate, str(built.artifact_path))
            spent += time.monotonic() - start
        return self._keep(task, candidate, built, result, spent)

    def _keep(
        self,
        task: str,
        candidate: MeasureCandidate,
        built: BuilderResult,
        ran: RunnerResult | None,
        spent: float,
    ) -> Trial:
        """Keep what was built if it is one of the best, delete the builder's, return the trial."""
        result = RunnerResult(None, built.error_msg) if ran is None else ran
        failure = ""
        if seconds(result.run_secs) == inf:
            kind = "build" if ran is None else "run"
            failure = f"{kind} timeout" if _TIMEOUT in str(result.error_msg) else kind
        trial = Trial(candidate, result, failure, spent)
        if built.artifact_path:
            self.finalists.add(task, trial, built, str(built.artifact_path), trial.latency)
            if folder := os.path.dirname(str(built.artifact_path)):  # of this build alone
                shutil.rmtree(folder, ignore_errors=True)
        return trial

    def _run_on_device(self, candidate: MeasureCandidate, artifact: str) -> RunnerResult:
        kind = device_type(self._target)
        # not by TVM, which would make other errors of its own
        if isinstance(self.runner, LocalRunner):
            return RunnerResult(*self.runner.run_alone(artifact, kind, candidate.args_info))
        (result,) = self._run_by_tvm([RunnerInput(artifact, kind, candidate.args_info)])
        return result

    def _run_by_tvm(self, inputs: Sequence[RunnerInput]) -> list[RunnerResult]:
        """Raises `RuntimeError` if no remote device answers: no candidate is to fail for it."""
        start = time.monotonic()
        with interrupts_in_tvm():
            results = [future.result() for future in self.runner.run(inputs)]
        if not all(any(text in str(ran.error_msg) for text in _NO_ANSWER) for ran in results):
            self._answered = time.monotonic()
        elif isinstance(self.runner, RPCRunner) and self._answered < start:
            key, waited = self.runner.rpc_config.tracker_key, time.monotonic() - start
            raise RuntimeError(
                f"no device of key {key!r} has answered for {waited:.0f} seconds: none is "
                "registered with the tracker, or all are busy or hang; the same call resumes"
            )
        return results

    def _measure(self, key: str, candidates: Sequence[MeasureCandidate]) -> list[Trial]:
        """Build and run a batch, with a builder or runner that is not this package's."""
        start, kind = time.monotonic(), device_type(self._target)
        if isinstance(self.builder, LocalBuilder):
            begun = [self.builder.start(c.sch.mod, self._target, self._link) for c in candidates]
            builds = [self.builder.result(build)[0] for build in begun]
        else:
            with interrupts_in_tvm():
                mods = [candidate.sch.mod for candidate in candidates]
                builds = self.builder.build([BuilderInput(mod, self._target) for mod in mods])
        inputs = [
            RunnerInput(str(built.artifact_path), kind, candidate.args_info)
            for built, candidate in zip(builds, candidates)
            if not built.error_msg
        ]
        ran = iter(self._run_by_tvm(inputs) if inputs else [])
        results = [None if built.error_msg else next(ran) for built in builds]
        each = (time.monotonic() - start) / len(candidates)
        return [
            self._keep(key, candidate, built, result, each)
            for candidate, built, result in zip(candidates, builds, results)
        ]
