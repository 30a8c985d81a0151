"""One trial: a configuration of an operator built, checked and timed in this process, which it may
crash.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import tvm
from tvm.autotvm.measure import MeasureErrorNo
from tvm.autotvm.task import Task
from tvm.autotvm.task.space import InstantiationError

from benchmarks import operators

# Timings per configuration, whose median counts, and the minimum duration of each.
_REPEAT, _MIN_REPEAT_MS = 3, 8


def measure(operator: str, target: str, index: int) -> tuple[float, int]:
    """Milliseconds and error number of a configuration."""
    task, arrays, expected = _prepared(operator, target)
    config = task.config_space.get(index)
    try:
        with task.target:
            schedule, tensors = task.instantiate(config)
    except (InstantiationError, tvm.TVMError):
        return float("nan"), MeasureErrorNo.INSTANTIATION_ERROR
    if not config.valid():
        return float("nan"), MeasureErrorNo.INSTANTIATION_ERROR
    try:
        with task.target:
            function = tvm.build(schedule, tensors)
    except tvm.TVMError:
        return float("nan"), MeasureErrorNo.COMPILE_HOST
    try:
        return _run(function, tvm.device(task.target.kind.name, 0), arrays, expected)
    except tvm.TVMError:
        return float("nan"), MeasureErrorNo.RUNTIME_DEVICE


def _run(function: Any, device: Any, arrays: list[Any], expected: Any) -> tuple[float, int]:
    arrays[-1].copyfrom(np.full_like(expected, np.nan))  # detects a kernel that writes nothing
    function(*arrays)
    if not np.allclose(arrays[-1].numpy(), expected, rtol=1e-3, atol=1e-4):
        return float("nan"), MeasureErrorNo.WRONG_ANSWER
    timer = function.time_evaluator(
        function.entry_name, device, number=1, repeat=_REPEAT, min_repeat_ms=_MIN_REPEAT_MS
    )
    return float(np.median(timer(*arrays).results)) * 1e3, MeasureErrorNo.NO_ERROR


@lru_cache(maxsize=1)
def _prepared(operator: str, target: str) -> tuple[Task, list[tvm.nd.NDArray], Any]:
    """The task, input and output arrays, and the expected output, computed by the default schedule
    on the CPU.
    """
    task = operators.task(operator, target)
    with task.target:
        _, tensors = task.instantiate(task.config_space.get(0))
    reference = tvm.build(tvm.te.create_schedule(tensors[-1].op), tensors, "llvm")
    rng = np.random.default_rng(0)
    shapes = [tuple(map(int, tensor.shape)) for tensor in tensors]
    inputs = [rng.standard_normal(shape, dtype="float32") for shape in shapes]
    on_cpu = [tvm.nd.array(array) for array in inputs]
    reference(*on_cpu)
    device = tvm.device(task.target.kind.name, 0)
    return task, [tvm.nd.array(array, device) for array in inputs], on_cpu[-1].numpy()
