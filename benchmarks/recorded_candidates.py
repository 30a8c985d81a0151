"""MetaSchedule candidates whose measurements are remembered: a builder and a runner for TVM's own
loop.

What was measured once is looked up; what was not is built, run and recorded. So all searches of a
workload see the same landscape, with the noise of the first measurement, and it grows where they
go: the spaces are far too large to be tabulated.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.meta_schedule.builder import BuilderInput, BuilderResult, PyBuilder
from tvm.s_tir.meta_schedule.runner import PyRunner, RunnerInput
from tvm.s_tir.meta_schedule.runner.local_runner import LocalRunnerFuture
from tvm_ffi import structural_hash

from autotvm_opevo._utils import jsonl
from autotvm_opevo.meta_schedule import LocalBuilder, LocalRunner
from benchmarks import resume

_REPEAT, _MIN_REPEAT_MS = 5, 10
_PREFIX = "recorded-"


class RecordedCandidates:
    """The measurements of one workload.

    Parameters
    ----------
    file : Path
        With one candidate per line; created if missing.
    about : dict
        What measurements depend on, such as the device: part of each line. Lines of another one are
        left alone.

    Attributes
    ----------
    seconds : dict of str to float or None
        The least of five repeats of each candidate, by the structural hash of its module; None if
        it failed.
    measured : int
        Number of candidates that had no entry.
    builder, runner : Builder, Runner
        MetaSchedule's. Use both together, and without TVM's ``RemoveBuildArtifact``: the runner
        removes what it ran.
    """

    def __init__(self, file: Path, about: dict[str, Any]) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        self._file, self._about = file, about
        known = (line for line in resume.read(file) if about.items() <= line.items())
        self.seconds: dict[str, float | None] = {
            line["candidate"]: line["seconds"] for line in known
        }
        self.measured = 0
        artifacts: dict[str, str] = {}  # the candidates that were built
        self.builder, self.runner = _Builder(self, artifacts), _Runner(self, artifacts)

    def add(self, candidate: str, seconds: float | None) -> None:
        """Record a measurement."""
        self.seconds[candidate] = seconds
        self.measured += 1
        jsonl.append(self._file, {**self._about, "candidate": candidate, "seconds": seconds})


@derived_object
class _Builder(PyBuilder):
    """Build what has no entry."""

    def __init__(self, recorded: RecordedCandidates, artifacts: dict[str, str]) -> None:
        super().__init__()
        self._recorded = recorded
        self._artifacts = artifacts
        self._builder = LocalBuilder(link=True)

    def build(self, build_inputs: list[BuilderInput]) -> list[BuilderResult]:
        candidates = [str(structural_hash(one.mod)) for one in build_inputs]
        new = {
            key: one
            for key, one in zip(candidates, build_inputs)
            if key not in self._recorded.seconds
        }
        built = dict(zip(new, self._builder.build([*new.values()])))
        for key, result in built.items():
            if result.error_msg:
                self._recorded.add(key, None)
            else:
                self._artifacts[str(result.artifact_path)] = key
        # Of a candidate that the batch has twice, the second is looked up.
        return [built.pop(key, None) or BuilderResult(_PREFIX + key, None) for key in candidates]


@derived_object
class _Runner(PyRunner):
    """Run what was built."""

    def __init__(self, recorded: RecordedCandidates, artifacts: dict[str, str]) -> None:
        super().__init__()
        self._recorded, self._artifacts = recorded, artifacts
        config = ms.runner.EvaluatorConfig(number=1, repeat=_REPEAT, min_repeat_ms=_MIN_REPEAT_MS)
        self._runner = LocalRunner(evaluator_config=config)

    def run(self, runner_inputs: list[RunnerInput]) -> list[LocalRunnerFuture]:
        return [self._result(one) for one in runner_inputs]

    def _result(self, one: RunnerInput) -> LocalRunnerFuture:
        artifact = str(one.artifact_path)
        candidate = self._artifacts.pop(artifact, None)
        if candidate is None:
            candidate = artifact.removeprefix(_PREFIX)
        else:
            latencies = self._runner.run([one])[0].result().run_secs
            self._recorded.add(candidate, min(map(float, latencies)) if latencies else None)
            shutil.rmtree(Path(artifact).parent, ignore_errors=True)
        seconds = self._recorded.seconds[candidate]
        return (
            LocalRunnerFuture(None, "failed when it was recorded")
            if seconds is None
            else LocalRunnerFuture([seconds], None)
        )
