"""A network before and after tuning: how fast, and whether it computes the same. Knows no TVM."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Speedup:
    """Seconds of one run of the network, each measured several times and in turn, and how far the outputs are apart.

    Attributes
    ----------
    before, after : list of float
        Latencies in seconds, untuned and tuned; the k-th of both were measured one after the other.
    error : float
        The largest difference of an output, relative to the largest value of it.
    outputs_match : bool
        Whether that is within what rounding explains.
    """

    before: list[float]
    after: list[float]
    error: float
    outputs_match: bool


def compared(expected: Sequence[Array], outputs: Sequence[Array], before: list[float], after: list[float]) -> Speedup:
    """The comparison of what two networks have computed from the same inputs, and of how long they took.

    Examples
    --------
    >>> compared([np.array([1.0, 2.0])], [np.array([1.0, 1.0])], [0.2], [0.1])
    Comparison(before=[0.2], after=[0.1], error=0.5, outputs_match=False)
    """
    error = max((_error(x, y) for x, y in zip(expected, outputs)), default=0.0)
    coarse = any(x.dtype.kind == "f" and x.dtype.itemsize < 4 for x in expected)
    return Speedup(before, after, error, error <= (3e-2 if coarse else 1e-3))


def _error(x: Array, y: Array) -> float:
    """Largest difference relative to the largest value; infinite where one is a number and the other is not."""
    x, y = x.astype("float64"), y.astype("float64")
    if not np.array_equal(np.isfinite(x), np.isfinite(y)):
        return float("inf")
    finite = np.isfinite(x)
    if not finite.any():
        return 0.0
    scale = np.abs(x[finite]).max()
    return float(np.abs(x[finite] - y[finite]).max() / scale) if scale else float(np.abs(y[finite]).max())
