"""Built programs: their random inputs, and the comparison of their outputs. Imports no TVM."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import numpy as np

Array = np.ndarray[Any, Any]

# The shortest duration of one timing, in milliseconds.
MIN_REPEAT_MS = 50
# Largest relative error that rounding explains, for float16 outputs and for all others.
_HALF_TOLERANCE, _TOLERANCE = 3e-2, 1e-3


class Timed(Protocol):
    """A built program in memory of its own, with inputs."""

    def seconds(self) -> float:
        """The latency of one run, timed for a moment."""


class Instance(Timed, Protocol):
    """A built network in memory of its own, with inputs."""

    def outputs(self) -> list[Array]:
        """Run it; returns its output tensors."""


def compare_outputs(expected: Sequence[Array], actual: Sequence[Array]) -> tuple[float, bool]:
    """The largest relative error of an output, and whether rounding explains it.

    Examples
    --------
    >>> compare_outputs([np.array([1.0, 2.0])], [np.array([1.0, 1.0])])
    (0.5, False)
    """
    error = max((_relative_error(x, y) for x, y in zip(expected, actual)), default=0.0)
    half = any("float" in x.dtype.name and x.dtype.itemsize < 4 for x in expected)  # bfloat16 is of kind "V"
    return error, error <= (_HALF_TOLERANCE if half else _TOLERANCE)


def random_arrays(types: Iterable[tuple[tuple[int, ...], str]]) -> list[Array]:
    """Reproducible random tensors of the given shapes and dtypes; integers, which may be indices, are 0 or 1.

    Examples
    --------
    >>> [(array.shape, str(array.dtype)) for array in random_arrays([((2, 3), "float16"), ((4,), "int32")])]
    [((2, 3), 'float16'), ((4,), 'int32')]
    """
    rng = np.random.default_rng(0)
    return [
        (rng.standard_normal(shape) if "float" in dtype else rng.integers(0, 2, shape)).astype(dtype) for shape, dtype in types
    ]


def _relative_error(x: Array, y: Array) -> float:
    """Largest difference relative to the largest value of `x`; infinite where only one of the two is finite."""
    x, y = x.astype("float64"), y.astype("float64")
    if not np.array_equal(np.isfinite(x), np.isfinite(y)):
        return float("inf")
    finite = np.isfinite(x)
    if not finite.any():
        return 0.0
    scale = np.abs(x[finite]).max()
    return float(np.abs(x[finite] - y[finite]).max() / scale) if scale else float(np.abs(y[finite]).max())
