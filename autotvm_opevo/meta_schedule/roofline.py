"""The limits of this machine's CPU, measured with TVM 0.27, and of a task."""

from __future__ import annotations

import math
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import tvm
from tvm import te
from tvm.s_tir import Schedule, ScheduleError
from tvm.s_tir.analysis import estimate_tir_flops
from tvm.s_tir.meta_schedule.arg_info import ArgInfo

from autotvm_opevo.lowering.network import is_known
from autotvm_opevo.tuning import roofline
from autotvm_opevo.tuning.roofline import REPEAT_MS, REPEATS, Roofline, Work


def work(mod: tvm.IRModule) -> Work:
    """What one run of a task has to do. Operations count for float32 only, whose peak is known; of
    a tensor that is read here and there, such as a table of embeddings, no more elements than there
    are iterations."""
    iterations: Counter[Any] = Counter()  # that touch a tensor
    schedule = Schedule(mod)
    with suppress(ScheduleError):  # calls of functions that are not TVM's have no such block
        for block in map(schedule.get, schedule.get_child_blocks(schedule.get_sblock("root"))):
            extent = math.prod(int(variable.dom.extent) for variable in block.iter_vars)
            for region in (*block.reads, *block.writes):
                # An extent that is an expression, as of padding by reflection, may be all of it.
                extents = [interval.extent for interval in region.region]
                iterations[region.source] += (
                    extent * math.prod(map(int, extents))
                    if all(map(is_known, extents))
                    else sys.maxsize
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
    return roofline.measure(te, partial(_seconds, target), kernel_threads())


def kernel_threads() -> int:
    """Number of threads in which TVM runs kernels in this process.

    Asked in a thread that ends: TVM binds the one that asks to some of the cores, and with it all
    that it starts later, such as builders.
    """
    with ThreadPoolExecutor(1) as thread:
        return int(thread.submit(tvm.get_global_func("runtime.NumThreads")).result())


def measure_flops(target: tvm.target.Target) -> float:
    """float32 operations per second of this machine's best matrix product, with the instructions of
    a target.
    """
    return roofline.measure_flops(te, partial(_seconds, target))


def _seconds(target: tvm.target.Target, tensors: list[te.Tensor]) -> float:
    """See `tuning.roofline.Seconds`."""
    arrays = [
        tvm.runtime.tensor(np.ones([int(extent) for extent in tensor.shape], "float32"))
        for tensor in tensors
    ]
    library: Any = tvm.compile(_schedule(tensors).mod, target)
    run = library.mod.time_evaluator(
        "main", tvm.cpu(), number=1, repeat=REPEATS, min_repeat_ms=REPEAT_MS
    )
    return float(min(run(*arrays).results))


def _schedule(tensors: list[te.Tensor]) -> Schedule:
    schedule = Schedule(te.create_prim_func(tensors))
    block = schedule.get_sblock(tensors[-1].op.name)
    local = schedule.cache_write(block, 0, "local")
    first, *others, k = schedule.get_loops(block)
    schedule.reorder(first, k, *others)
    schedule.reverse_compute_at(local, first)
    for stage in (block, local):
        *middle, last = schedule.get_loops(stage)[-len(others) :]
        for loop in middle:
            schedule.unroll(loop)  # or LLVM leaves the block in memory
        schedule.vectorize(last)
    schedule.parallel(first)
    schedule.decompose_reduction(block, k)
    return schedule
