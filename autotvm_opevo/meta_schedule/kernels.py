"""The kernel of one record: built as it was when it was measured, and timed alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tvm
from tvm.s_tir.meta_schedule.database import TuningRecord

from autotvm_opevo.meta_schedule.worker import INDICES, build_schedule
from autotvm_opevo.tuning.programs import MIN_REPEAT_MS, Array, random_arrays


def build_kernel(record: TuningRecord) -> tuple[Any, list[Array]]:
    """Build the schedule of a record; returns the library, and random tensors for it; integers are
    1, as when it was measured.
    """
    library = build_schedule(record.as_measure_candidate().sch.mod, record.target)
    arrays = random_arrays(
        (tuple(map(int, tensor.shape)), str(tensor.dtype)) for tensor in record.args_info
    )
    return library, [
        np.ones_like(array) if array.dtype.name in INDICES else array for array in arrays
    ]


class KernelInstance:
    """A built kernel and its tensors in newly allocated memory of a device."""

    def __init__(self, library: Any, device: tvm.runtime.Device, tensors: Sequence[Array]) -> None:
        self._tensors = [tvm.runtime.tensor(tensor, device=device) for tensor in tensors]
        self._evaluate = library.time_evaluator(
            "main", device, number=1, repeat=1, min_repeat_ms=MIN_REPEAT_MS
        )

    def seconds(self) -> float:
        """The latency of one run, timed for a moment."""
        return float(self._evaluate(*self._tensors).mean)
