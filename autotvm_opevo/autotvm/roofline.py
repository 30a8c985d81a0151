"""The roofline of this machine's CPU (Williams et al., CACM 2009): how fast a task can be at most.

It is an estimate, from what other kernels reach: a matrix product whose blocks stay in registers, and reads of as many bytes as
the task's tensors have, or fewer, which caches may hold.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm import te
from tvm.autotvm.task import Task

# What is read to measure the bandwidth, in bytes.
_READS = tuple(1 << bits for bits in range(22, 29))
# Rows and columns of the block of a matrix product that stays in registers, for vectors of up to 8 and of 16 numbers; its depth.
_BLOCKS, _DEPTH = ((5, 16), (8, 32)), 256
_REPEATS = 5


@dataclass(frozen=True)
class Roofline:
    """What a device can do at most.

    Parameters
    ----------
    flops : float
        float32 operations per second of its best matrix product.
    bandwidths : tuple of (float, float)
        Sizes in bytes, ascending, and the bytes per second of reading as many again and again.
    threads : int
        Number of threads in which TVM ran them; 0 if unknown.

    Examples
    --------
    >>> roofline = Roofline(flops=2e11, bandwidths=((1e6, 1e11), (1e8, 2e10)))
    >>> roofline.latency(flop=2e8, size=5e6), roofline.latency(flop=2e8, size=2e8)
    (0.001, 0.01)
    """

    flops: float = math.inf
    bandwidths: tuple[tuple[float, float], ...] = ()
    threads: int = 0

    def latency(self, flop: float, size: float) -> float:
        """Seconds for `flop` operations on `size` bytes, at least; small sizes, which caches hold, cost nothing."""
        bandwidth = next((speed for read, speed in reversed(self.bandwidths) if read <= size), math.inf)
        return max(flop / self.flops, size / bandwidth)

    def of(self, task: Task) -> float:
        """Seconds for one run of a task, at least.

        Operations count for float32 only, whose peak is known, and not for Winograd's algorithm, which needs fewer.
        """
        tensors = [argument[1:3] for argument in task.args if isinstance(argument, tuple) and argument[:1] == ("TENSOR",)]
        size = sum(math.prod(shape) * tvm.DataType(dtype).bits // 8 for shape, dtype in tensors)
        counted = tensors and all(dtype == "float32" for _, dtype in tensors) and "winograd" not in task.name
        return self.latency(float(task.flop or 0) if counted else 0.0, size)


def measure_roofline(target: str) -> Roofline:
    """Measure this machine's CPU, in as many threads as TVM runs kernels, with the instructions of a target."""
    device = tvm.cpu()
    blocks = [block_product(*block) for block in _BLOCKS]
    flops = max(flop / _seconds(schedule, tensors, target, device) for schedule, tensors, flop in blocks)
    bandwidths = tuple((float(size), size / _seconds(*_read(size), target, device)) for size in _READS)
    return Roofline(flops, bandwidths, int(tvm.get_global_func("runtime.NumThreads")()))


def _seconds(schedule: te.Schedule, tensors: list[te.Tensor], target: str, device: tvm.runtime.Device) -> float:
    """The shortest of some runs."""
    with tvm.transform.PassContext(opt_level=3):
        module = tvm.build(schedule, tensors, target)
    arrays = [tvm.nd.array(np.ones([int(extent) for extent in tensor.shape], tensor.dtype), device) for tensor in tensors]
    run: Any = module.time_evaluator(module.entry_name, device, number=1, repeat=_REPEATS, min_repeat_ms=10)
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


def block_product(rows: int, columns: int) -> tuple[te.Schedule, list[te.Tensor], float]:
    """Many products of the same small matrices, which stay in the cache, into blocks that stay in registers."""
    parts = 4096
    a = te.placeholder((_DEPTH, rows), name="a")
    b = te.placeholder((_DEPTH, columns), name="b")
    k = te.reduce_axis((0, _DEPTH), name="k")
    c = te.compute((parts, rows, columns), lambda i, y, x: te.sum(a[k, y] * b[k, x], axis=k), name="c")
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
    return schedule, [a, b, c], 2.0 * parts * rows * columns * _DEPTH
