"""The limits of this machine's CPU, measured with AutoTVM's TVM, and of a task."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import tvm
from tvm import te
from tvm.autotvm.task import Task

from autotvm_opevo.tuning import roofline
from autotvm_opevo.tuning.roofline import REPEAT_MS, REPEATS, Roofline, Work


def work(task: Task) -> Work:
    """What one run of a task has to do.

    Operations count for float32 only, whose peak is known, and not for Winograd's algorithm, which
    needs fewer.
    """
    tensors = [
        argument[1:3]
        for argument in task.args
        if isinstance(argument, tuple) and argument[:1] == ("TENSOR",)
    ]
    size = sum(math.prod(shape) * tvm.DataType(dtype).bits // 8 for shape, dtype in tensors)
    counted = (
        tensors and all(dtype == "float32" for _, dtype in tensors) and "winograd" not in task.name
    )
    return float(task.flop or 0) if counted else 0.0, float(size)


def measure_roofline(target: str) -> Roofline:
    """Measure this machine's CPU, in as many threads as TVM runs kernels, with the instructions of
    a target.
    """
    threads = int(tvm.get_global_func("runtime.NumThreads")())
    return roofline.measure(te, partial(_seconds, target), threads)


def measure_flops(target: str) -> float:
    """float32 operations per second of this machine's best matrix product, with the instructions of
    a target.
    """
    return roofline.measure_flops(te, partial(_seconds, target))


def _seconds(target: str, tensors: list[te.Tensor]) -> float:
    """See `tuning.roofline.Seconds`."""
    device = tvm.cpu()
    with tvm.transform.PassContext(opt_level=3):
        module = tvm.build(_schedule(tensors[-1]), tensors, target)
    arrays = [
        tvm.nd.array(np.ones([int(extent) for extent in tensor.shape], tensor.dtype), device)
        for tensor in tensors
    ]
    run: Any = module.time_evaluator(
        module.entry_name, device, number=1, repeat=REPEATS, min_repeat_ms=REPEAT_MS
    )
    return float(min(run(*arrays).results))


def _schedule(output: te.Tensor) -> te.Schedule:
    schedule = te.create_schedule(output.op)
    local = schedule.cache_write(output, "local")
    first, *middle, last = schedule[output].op.axis
    schedule[output].parallel(first)
    schedule[local].compute_at(schedule[output], first)
    _, *local_middle, local_last = schedule[local].op.axis
    (k,) = schedule[local].op.reduce_axis
    schedule[local].reorder(k, *local_middle, local_last)
    for stage, others, vectors in (
        (schedule[output], middle, last),
        (schedule[local], local_middle, local_last),
    ):
        for axis in others:
            stage.unroll(axis)  # or LLVM leaves the block in memory
        stage.vectorize(vectors)
    return schedule
