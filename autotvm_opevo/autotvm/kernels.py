"""The kernel of one record: built as it was when it was measured, and timed alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm
from tvm import autotvm

from autotvm_opevo.autotvm.log import Record
from autotvm_opevo.tuning.programs import MIN_REPEAT_MS, Array


def build_kernel(
    record: Record, target: tvm.target.Target
) -> tuple[Any, list[tuple[tuple[int, ...], str]]]:
    """Build the configuration of a record; returns the library, and the shapes and dtypes of its
    tensors.

    `target` is the record's, with its host, which a log does not have.
    """
    measured, _ = record
    scope, before = autotvm.GLOBAL_SCOPE, autotvm.GLOBAL_SCOPE.in_tuning
    scope.in_tuning = True  # otherwise some templates build another program
    try:
        with target:
            schedule, tensors = measured.task.instantiate(measured.config)
            library = tvm.build(schedule, tensors, target=target)
    finally:
        scope.in_tuning = before
    return library, [(tuple(map(int, tensor.shape)), str(tensor.dtype)) for tensor in tensors]


class KernelInstance:
    """A built kernel and its tensors in newly allocated memory of a device."""

    def __init__(self, library: Any, device: tvm.runtime.Device, tensors: Sequence[Array]) -> None:
        self._tensors = [tvm.nd.array(tensor, device) for tensor in tensors]
        self._evaluate = library.time_evaluator(
            library.entry_name, device, number=1, repeat=1, min_repeat_ms=MIN_REPEAT_MS
        )

    def seconds(self) -> float:
        """The latency of one run, timed for a moment."""
        return float(self._evaluate(*self._tensors).mean)
