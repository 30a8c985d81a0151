"""The roofline of a machine (Williams et al., CACM 2009): how fast a task can be at most. Imports
no TVM: it gets the one that is installed.

It is an estimate, from what other kernels reach: a matrix product whose blocks stay in registers,
and reads of as many bytes as the task's tensors have, or fewer, which caches may hold.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

# What is read to measure the bandwidth, in bytes.
_READS = tuple(1 << bits for bits in range(22, 29, 2))
# Rows and columns of the block of a matrix product that stays in registers, for vectors of up to 8
# and of 16 numbers; its depth; and how many such products are one measurement.
BLOCKS = ((5, 16), (8, 32))
_DEPTH, _PARTS = 256, 4096
# How often both are measured, of which the best counts, and the shortest duration of one
# measurement, in milliseconds.
REPEATS = 5
REPEAT_MS = 10

# Where bounds are unknown for a larger part of the latency, nothing is said of all together.
MAX_UNKNOWN = 0.05

# Operations of a task whose peak is known, and the bytes of its tensors.
Work = tuple[float, float]

# The shortest seconds of a kernel that computes the last of some tensors: summing in registers, in
# parallel over its first axis, with vectors along its last, and what is between unrolled.
Seconds = Callable[[list[Any]], float]


@dataclass(frozen=True)
class Roofline:
    """What a device can do at most.

    >>> roofline = Roofline(flops=2e11, bandwidths=((1e6, 1e11), (1e8, 2e10)))
    >>> roofline.latency(flop=2e8, size=5e6), roofline.latency(flop=2e8, size=2e8)
    (0.001, 0.01)
    """

    flops: float = math.inf  # float32 operations per second of its best matrix product
    # sizes in bytes, ascending, and the bytes per second of reading as many again and again
    bandwidths: tuple[tuple[float, float], ...] = ()
    threads: int = 0  # in which TVM ran them; 0 if unknown

    def latency(self, flop: float, size: float) -> float:
        """Seconds for `flop` operations on `size` bytes, at least; what caches hold is free."""
        bandwidth = next(
            (speed for read, speed in reversed(self.bandwidths) if read <= size), math.inf
        )
        return max(flop / self.flops, size / bandwidth)


def measure(te: Any, seconds: Seconds, threads: int) -> Roofline:
    """Measure a machine, whose TVM has this ``tvm.te`` and number of threads."""
    bandwidths = []
    for size in _READS:
        tensors = _sum(te, size, threads)
        read = 4.0 * math.prod(map(int, tensors[0].shape))
        bandwidths.append((read, read / seconds(tensors)))
    flops = max(
        2.0 * _PARTS * _DEPTH * math.prod(block) / seconds(block_product(te, *block))
        for block in BLOCKS
    )
    return Roofline(flops, tuple(bandwidths), threads)


def _sum(te: Any, size: int, threads: int) -> list[Any]:
    """Sum a long array of about `size` bytes, of which every thread reads as many parts."""
    parts, width = threads * max(1, 64 // threads), 64
    depth = size // (4 * parts * width)
    a = te.placeholder((parts, depth, width), name="a")
    k = te.reduce_axis((0, depth), name="k")
    return [a, te.compute((parts, width), lambda i, v: te.sum(a[i, k, v], axis=k), name="b")]


def block_product(te: Any, rows: int, columns: int) -> list[Any]:
    """Many products of the same small matrices, into blocks that stay in registers."""
    a = te.placeholder((_DEPTH, rows), name="a")
    b = te.placeholder((_DEPTH, columns), name="b")
    k = te.reduce_axis((0, _DEPTH), name="k")
    c = te.compute(
        (_PARTS, rows, columns), lambda i, y, x: te.sum(a[k, y] * b[k, x], axis=k), name="c"
    )
    return [a, b, c]
