"""Hooks into MetaSchedule's measuring: results are stored and shown as soon as they are there."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tvm.ir.utils import derived_object
from tvm.s_tir.meta_schedule.builder import PyBuilder
from tvm.s_tir.meta_schedule.measure_callback import PyMeasureCallback
from tvm.s_tir.meta_schedule.runner import PyRunner

from autotvm_opevo._utils.text import last_line
from autotvm_opevo.meta_schedule.database import seconds
from autotvm_opevo.meta_schedule.interrupts import SigintGuard

# Kind and message.
Failure = tuple[str, str]


class ResultFlusher:
    """Make TVM store the results of all finished tasks.

    Its gradient scheduler first builds and runs a batch of every task, and only then collects results: an interrupted run would
    lose them.
    """

    def __init__(self, task_scheduler: Any, tasks: int, guard: SigintGuard) -> None:
        self._task_scheduler, self._tasks, self._guard = task_scheduler, tasks, guard

    def __call__(self) -> None:
        with self._guard.deferred():
            for task in range(self._tasks):
                self._task_scheduler.touch_task(task)


@derived_object
class FlushingBuilder(PyBuilder):
    """A builder that flushes results before each batch."""

    def __init__(self, builder: Any, flush: Callable[[], None]) -> None:
        super().__init__()
        self._builder, self._flush = builder, flush

    def build(self, build_inputs: list[Any]) -> list[Any]:
        """Called by TVM for every batch."""
        self._flush()
        return list(self._builder.build(build_inputs))


@derived_object
class FlushingRunner(PyRunner):
    """A runner that flushes results before each batch: remote devices may have finished others during the build."""

    def __init__(self, runner: Any, flush: Callable[[], None]) -> None:
        super().__init__()
        self._runner, self._flush = runner, flush

    def run(self, runner_inputs: list[Any]) -> list[Any]:
        """Called by TVM for every batch."""
        self._flush()
        return list(self._runner.run(runner_inputs))


@derived_object
class ProgressCallback(PyMeasureCallback):
    """Call a function with a task's index, and the latency and the failure of each of its new candidates."""

    def __init__(self, callback: Callable[[int, Sequence[tuple[float, Failure]]], None]) -> None:
        super().__init__()
        self._callback = callback

    def apply(self, task_scheduler: Any, task_id: int, candidates: Any, builds: Any, results: Any) -> None:
        """Called by TVM after every batch."""
        self._callback(task_id, [(seconds(result.run_secs), failure(build, result)) for build, result in zip(builds, results)])


def failure(build: Any, result: Any) -> Failure:
    """The kind of a failure, and the last line of its message; both empty for a success."""
    if seconds(result.run_secs) < math.inf:
        return "", ""
    message = last_line(build.error_msg or result.error_msg)
    kind = "build" if build.error_msg else "run"
    return f"{kind} timeout" if "Timeout, killed" in message else kind, message[:300]
