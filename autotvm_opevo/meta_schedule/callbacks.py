"""What MetaSchedule tells of each batch that was measured."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tvm.ir.utils import derived_object
from tvm.s_tir.meta_schedule.measure_callback import PyMeasureCallback

from autotvm_opevo._utils.text import last_line
from autotvm_opevo.meta_schedule.database import seconds

# Kind and message.
Failure = tuple[str, str]


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
