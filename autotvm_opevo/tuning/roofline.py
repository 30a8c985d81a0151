"""The roofline of a machine (Williams et al., CACM 2009): how fast a task can be at most. Imports
no TVM.

It is an estimate, from what other kernels reach: a matrix product whose blocks stay in registers,
and reads of as many bytes as the task's tensors have, or fewer, which caches may hold.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

# What is read to measure the bandwidth, in bytes.
READS = tuple(1 << bits for bits in range(22, 29))
# Rows and columns of the block of a matrix product that stays in registers, for vectors of up to 8
# and of 16 numbers; its depth; and how many such products are one measurement.
BLOCKS = ((5, 16), (8, 32))
DEPTH = 256
PARTS = 4096
# How often both are measured, of which the best counts, and the shortest duration of one
# measurement, in milliseconds.
REPEATS = 5
REPEAT_MS = 10

# Operations of a task whose peak is known, and the bytes of its tensors.
Work = tuple[float, float]


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

    @property
    def bandwidth(self) -> float:
        """Bytes per second of reading the fewest bytes that were measured; 0 if none were."""
        return self.bandwidths[0][1] if self.bandwidths else 0.0

    @property
    def memory_bandwidth(self) -> float:
        """Bytes per second of reading the most bytes that were measured, more than caches hold; 0
        if none were.
        """
        return self.bandwidths[-1][1] if self.bandwidths else 0.0

    def latency(self, flop: float, size: float) -> float:
        """Seconds for `flop` operations on `size` bytes, at least; small sizes, which caches hold,
        cost nothing.
        """
        bandwidth = next(
            (speed for read, speed in reversed(self.bandwidths) if read <= size), math.inf
        )
        return max(flop / self.flops, size / bandwidth)
