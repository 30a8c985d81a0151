"""The limits of this machine's CPU, measured with AutoTVM's TVM, and of a task."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import tvm
from tvm import te
from tvm.autotvm.task import Task

from autotvm_opevo.tuning.roofline import (
    BLOCKS,
    DEPTH,
    PARTS,
    READS,
    REPEAT_MS,
    REPEATS,
    Roofline,
    Work,
)


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
    bandwidths = tuple((float(size), size / _seconds(*_read(size), target)) for size in READS)
    return Roofline(
        measure_flops(target), bandwidths, int(tvm.get_global_func("runtime.NumThreads")())
    )


def measure_flops(target: str) -> float:
    """float32 operations per second of this machine's best matrix product, with the instructions of
    a target.
    """
    blocks = [_block_product(*block) for block in BLOCKS]
    return max(flop / _seconds(schedule, tensors, target) for schedule, tensors, flop in blocks)


def _seconds(schedule: te.Schedule, tensors: list[te.Tensor], target: str) -> float:
    """The shortest of some runs."""
    device = tvm.cpu()
    with tvm.transform.PassContext(opt_level=3):
        module = tvm.build(schedule, tensors, target)
    arrays = [
        tvm.nd.array(np.ones([int(extent) for extent in tensor.shape], tensor.dtype), device)
        for tensor in tensors
    ]
    run: Any = module.time_evaluator(
        module.entry_name, device, number=1, repeat=REPEATS, min_repeat_ms=REPEAT_MS
    )
    return float(min(run(*arrays).results))


def _read(size: int) -> tuple[te.Schedule, list[te.Tensor]]:
    """Sum a long array of `size` bytes: every core reads a part of it."""
    parts, width = 64, 64
    depth = size // (4 * parts * width)
    a = te.placeholder((parts, depth, width), name="a")
    k = te.reduce_axis((0, depth), name="k")
    b = te.compute((parts, width), lambda i, v: te.sum(a[i, k, v], axis=k), name="b")
    schedule = te.create_schedule(b.op)
    local = schedule.cache_write(b, "local")
    i, v = schedule[b].op.axis
    schedule[b].parallel(i)
    schedule[b].vectorize(v)
    schedule[local].compute_at(schedule[b], i)
    _, v = schedule[local].op.axis
    (k,) = schedule[local].op.reduce_axis
    schedule[local].reorder(k, v)
    schedule[local].vectorize(v)
    return schedule, [a, b]


def _block_product(rows: int, columns: int) -> tuple[te.Schedule, list[te.Tensor], float]:
    """Many products of the same small matrices, which stay in the cache, into blocks that stay in
    registers.
    """
    a = te.placeholder((DEPTH, rows), name="a")
    b = te.placeholder((DEPTH, columns), name="b")
    k = te.reduce_axis((0, DEPTH), name="k")
    c = te.compute(
        (PARTS, rows, columns), lambda i, y, x: te.sum(a[k, y] * b[k, x], axis=k), name="c"
    )
    schedule = te.create_schedule(c.op)
    local = schedule.cache_write(c, "local")
    i, y, x = schedule[c].op.axis
    schedule[c].parallel(i)
    schedule[c].unroll(y)  # or LLVM leaves the block in memory
    schedule[c].vectorize(x)
    schedule[local].compute_at(schedule[c], i)
    _, y, x = schedule[local].op.axis
    (k,) = schedule[local].op.reduce_axis
    schedule[local].reorder(k, y, x)
    schedule[local].unroll(y)
    schedule[local].vectorize(x)
    return schedule, [a, b, c], 2.0 * PARTS * rows * columns * DEPTH
