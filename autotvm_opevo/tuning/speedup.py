"""A network before and after tuning: how fast it runs, and whether it computes the same. Imports no TVM."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

Array = np.ndarray[Any, Any]

# How often every network is timed, and the shortest duration of one timing, in milliseconds.
REPEATS = 9
MIN_REPEAT_MS = 50
# A network that takes longer after tuning, by more than the noise of timing it in turn.
SLOWER = 1.01
# Largest relative error that rounding explains, for float16 outputs and for all others.
_HALF_TOLERANCE, _TOLERANCE = 3e-2, 1e-3


@dataclass(frozen=True)
class Speedup:
    """Latencies of the untuned and the tuned network, and the difference of their outputs.

    Attributes
    ----------
    before, after : list of float
        Latencies in seconds, untuned and tuned; the k-th of both were measured one right after the other.
    relative_error : float
        Largest difference between the outputs, relative to their largest absolute value.
    outputs_match : bool
        Whether rounding explains that difference.
    """

    before: list[float]
    after: list[float]
    relative_error: float
    outputs_match: bool

    @classmethod
    def from_runs(cls, outputs: Sequence[Sequence[Array]], latencies: Sequence[list[float]]) -> Speedup:
        """Compare two runs on the same inputs.

        Parameters
        ----------
        outputs : pair of sequence of array
            Output tensors of the untuned and of the tuned network.
        latencies : pair of list of float
            Their latencies in seconds.

        Examples
        --------
        >>> Speedup.from_runs([[np.array([1.0, 2.0])], [np.array([1.0, 1.0])]], [[0.2], [0.1]])
        Speedup(before=[0.2], after=[0.1], relative_error=0.5, outputs_match=False)
        """
        (expected, actual), (before, after) = outputs, latencies
        return cls(before, after, *compare_outputs(expected, actual))


class Timed(Protocol):
    """A built program in memory of its own, with inputs."""

    def seconds(self) -> float:
        """The latency of one run, timed for a moment."""


class Instance(Timed, Protocol):
    """A built network in memory of its own, with inputs."""

    def outputs(self) -> list[Array]:
        """Run it; returns its output tensors."""


def run_interleaved(instances: Sequence[Instance]) -> tuple[list[list[Array]], list[list[float]]]:
    """Outputs of networks on the same inputs, and their latencies in seconds, timed in turn."""
    return [instance.outputs() for instance in instances], time_interleaved([instance.seconds for instance in instances])


def time_interleaved(timers: Sequence[Callable[[], float]], repeats: int = REPEATS) -> list[list[float]]:
    """Call all timers in turn, several times, so that a drift of the machine affects them alike.

    Examples
    --------
    >>> time_interleaved([lambda: 0.5, lambda: 0.25])[1][:3]
    [0.25, 0.25, 0.25]
    """
    rounds = [[timer() for timer in timers] for _ in range(repeats)]
    return [list(latencies) for latencies in zip(*rounds)]


def compare_outputs(expected: Sequence[Array], actual: Sequence[Array]) -> tuple[float, bool]:
    """The largest relative error of an output, and whether rounding explains it.

    Examples
    --------
    >>> compare_outputs([np.array([1.0, 2.0])], [np.array([1.0, 1.0])])
    (0.5, False)
    """
    error = max((_relative_error(x, y) for x, y in zip(expected, actual)), default=0.0)
    half = any(x.dtype.kind == "f" and x.dtype.itemsize < 4 for x in expected)
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
