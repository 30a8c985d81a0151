"""MetaSchedule candidates whose measurements are remembered: a builder and a runner for TVM's own loop.

What was measured once is looked up, at once and without noise; what was not is built, run and recorded. So all searches of a
workload see the same landscape, which grows where they go, since the spaces are far too large to be tabulated.
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

    Attributes
    ----------
    seconds : dict of str to float or None
        The fastest of five runs of each candidate, by the structural hash of its module; None if it failed.
    looked_up, measured : int
        Number of candidates that had an entry, and of those that had none.
    """

    def __init__(self, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        self._file = file
        self.seconds: dict[str, float | None] = {line["candidate"]: line["seconds"] for line in resume.read(file)}
        self.looked_up = self.measured = 0

    @property
    def best(self) -> float:
        """The least latency in seconds."""
        return min(filter(None, self.seconds.values()))

    def add(self, candidate: str, seconds: float | None) -> None:
        """Record a measurement."""
        self.seconds[candidate] = seconds
        self.measured += 1
        jsonl.append(self._file, {"candidate": candidate, "seconds": seconds})

    def builder_and_runner(self) -> tuple[Any, Any]:
        """For MetaSchedule, together; without its ``RemoveBuildArtifact``, since nothing is left over."""
        candidates: dict[str, str] = {}  # by artifact
        return _Builder(self, candidates), _Runner(self, candidates)


@derived_object
class _Builder(PyBuilder):
    """Build what has no entry."""

    def __init__(self, recorded: RecordedCandidates, candidates: dict[str, str]) -> None:
        super().__init__()
        self._recorded, self._candidates, self._builder = recorded, candidates, LocalBuilder(link=True)

    def build(self, build_inputs: list[BuilderInput]) -> list[BuilderResult]:
        hashes = [str(structural_hash(one.mod)) for one in build_inputs]
        new = {key: one for key, one in zip(hashes, build_inputs) if key not in self._recorded.seconds}
        built = dict(zip(new, self._builder.build([*new.values()])))
        for key, result in built.items():
            if result.error_msg:
                self._recorded.add(key, None)
            else:
                self._candidates[str(result.artifact_path)] = key
        self._recorded.looked_up += sum(key not in new for key in hashes)
        return [built.get(key) or BuilderResult(_PREFIX + key, None) for key in hashes]


@derived_object
class _Runner(PyRunner):
    """Run what was built."""

    def __init__(self, recorded: RecordedCandidates, candidates: dict[str, str]) -> None:
        super().__init__()
        self._recorded, self._candidates = recorded, candidates
        config = ms.runner.EvaluatorConfig(number=1, repeat=_REPEAT, min_repeat_ms=_MIN_REPEAT_MS)
        self._runner = LocalRunner(evaluator_config=config)

    def run(self, runner_inputs: list[RunnerInput]) -> list[LocalRunnerFuture]:
        return [self._result(one) for one in runner_inputs]

    def _result(self, one: RunnerInput) -> LocalRunnerFuture:
        artifact = str(one.artifact_path)
        key = self._candidates.get(artifact) or artifact.removeprefix(_PREFIX)
        if key not in self._recorded.seconds:  # a batch may hold a candidate twice
            latencies = self._runner.run([one])[0].result().run_secs
            self._recorded.add(key, min(map(float, latencies)) if latencies else None)
            shutil.rmtree(Path(artifact).parent, ignore_errors=True)
        seconds = self._recorded.seconds[key]
        return LocalRunnerFuture(None, "failed when it was recorded") if seconds is None else LocalRunnerFuture([seconds], None)
