"""The limits of this machine's CPU, measured with today's TVM, and of a task."""

from __future__ import annotations

import math
import sys
from collections import Counter
from contextlib import suppress
from typing import Any

import numpy as np
import tvm
from tvm import te
from tvm.s_tir import Schedule, ScheduleError
from tvm.s_tir.analysis import estimate_tir_flops
from tvm.s_tir.meta_schedule.arg_info import ArgInfo

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


def work(mod: tvm.IRModule) -> Work:
    """What one run of a task has to do. Operations count for float32 only, whose peak is known; of
    a tensor that is read here and there, such as a table of embeddings, no more elements than there
    are iterations."""
    iterations: Counter[Any] = Counter()  # that touch a tensor
    schedule = Schedule(mod)
    with suppress(ScheduleError):  # calls of functions that are not TVM's have no such block
        for block in map(schedule.get, schedule.get_child_blocks(schedule.get_sblock("root"))):
            extent = math.prod(int(one.dom.extent) for one in block.iter_vars)
            for region in (*block.reads, *block.writes):
                iterations[region.source] += extent * math.prod(
                    int(one.extent) for one in region.region
                )
    tensors = ArgInfo.from_prim_func(mod["main"])
    touched = [iterations.get(parameter, sys.maxsize) for parameter in mod["main"].params]
    elements = [min(math.prod(map(int, tensor.shape)), n) for tensor, n in zip(tensors, touched)]
    size = sum(
        n * tvm.DataType(str(tensor.dtype)).bits // 8 for n, tensor in zip(elements, tensors)
    )
    counted = all(str(tensor.dtype) == "float32" for tensor in tensors)
    return float(estimate_tir_flops(mod)) if counted else 0.0, float(size)


def measure_roofline(target: tvm.target.Target) -> Roofline:
    """Measure this machine's CPU, in as many threads as TVM runs kernels, with the instructions of
    a target.
    """
    bandwidths = tuple((float(size), size / _seconds(read_kernel(size), target)) for size in READS)
    return Roofline(measure_flops(target), bandwidths, kernel_threads())


def kernel_threads() -> int:
    """Number of threads in which TVM runs kernels in this process."""
    return int(tvm.get_global_func("runtime.NumThreads")())


def measure_flops(target: tvm.target.Target) -> float:
    """float32 operations per second of this machine's best matrix product, with the instructions of
    a target.
    """
    return max(
        2.0 * PARTS * DEPTH * math.prod(block) / _seconds(_block_product(*block), target)
        for block in BLOCKS
    )


def _seconds(schedule: Schedule, target: tvm.target.Target) -> float:
    """The shortest of some runs."""
    shapes = [
        tuple(map(int, tensor.shape)) for tensor in ArgInfo.from_prim_func(schedule.mod["main"])
    ]
    arrays = [tvm.runtime.tensor(np.ones(shape, "float32")) for shape in shapes]
    library: Any = tvm.compile(schedule.mod, target)
    run = library.mod.time_evaluator(
        "main", tvm.cpu(), number=1, repeat=REPEATS, min_repeat_ms=REPEAT_MS
    )
    return float(min(run(*arrays).results))


def read_kernel(size: int) -> Schedule:
    """Sum a long array of `size` bytes: every core reads a part of it."""
    parts, width = 64, 64
    depth = size // (4 * parts * width)
    a = te.placeholder((parts, depth, width), name="a")
    k = te.reduce_axis((0, depth), name="k")
    b = te.compute((parts, width), lambda i, v: te.sum(a[i, k, v], axis=k), name="b")
    return _schedule([a, b])


def _block_product(rows: int, columns: int) -> Schedule:
    """Many products of the same small matrices, which stay in the cache, into blocks that stay in
    registers.
    """
    a = te.placeholder((DEPTH, rows), name="a")
    b = te.placeholder((DEPTH, columns), name="b")
    k = te.reduce_axis((0, DEPTH), name="k")
    c = te.compute(
        (PARTS, rows, columns), lambda i, y, x: te.sum(a[k, y] * b[k, x], axis=k), name="c"
    )
    return _schedule([a, b, c])


def _schedule(tensors: list[te.Tensor]) -> Schedule:
    """Sum in registers, in parallel over the first axis of the last tensor, with vectors along its
    last, and others unrolled.
    """
    schedule = Schedule(te.create_prim_func(tensors))
    block = schedule.get_sblock(tensors[-1].op.name)
    local = schedule.cache_write(block, 0, "local")
    first, *others, k = schedule.get_loops(block)
    schedule.reorder(first, k, *others)
    schedule.reverse_compute_at(local, first)
    for one in (block, local):
        *middle, last = schedule.get_loops(one)[-len(others) :]
        for loop in middle:
            schedule.unroll(loop)  # or LLVM leaves the block in memory
        schedule.vectorize(last)
    schedule.parallel(first)
    schedule.decompose_reduction(block, k)
    return schedule
