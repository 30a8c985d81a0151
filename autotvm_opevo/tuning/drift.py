"""Drift of a machine: it becomes slower and faster within minutes, and measurements with it. Imports no TVM.

A yardstick, a kernel that stays the same, is timed again and again. What it takes around a moment, divided by what it took at
first, tells how much longer the trials of that moment took than they would have at first.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

import numpy as np

# Seconds between two timings of the yardstick; as many of them around a moment as count, and at first.
_INTERVAL, _WINDOW = 5.0, 3
# A smaller relative difference may be the yardstick's own noise.
_NOISE = 0.05
# A machine whose speed varied by more deserves a warning.
NOTABLE = 1.1


class Drift:
    """Latencies of the yardstick over time.

    Parameters
    ----------
    known : iterable of (float, float)
        Unix timestamps and latencies in seconds, of earlier runs.
    write : callable, optional
        Gets every new latency, in seconds.

    Attributes
    ----------
    latencies : list of float
        Of the yardstick, in seconds, in order of time.

    Examples
    --------
    >>> drift = Drift([(0.0, 1.0), (5.0, 1.0), (10.0, 1.02), (15.0, 1.5), (20.0, 1.5), (25.0, 1.51)])
    >>> drift.factor(5.0), drift.factor(20.0), drift.range
    (1.0, 1.5, 1.5)
    """

    def __init__(self, known: Iterable[tuple[float, float]] = (), write: Callable[[float], None] = lambda _: None) -> None:
        timed = sorted(known)
        self._times, self.latencies = [moment for moment, _ in timed], [latency for _, latency in timed]
        self._write = write

    @property
    def due(self) -> bool:
        """Whether the yardstick should be timed now; a clock that was set back does not matter."""
        return not self._times or not 0 <= time.time() - self._times[-1] < _INTERVAL

    def add(self, latency: float) -> None:
        """Add the yardstick's latency now, in seconds."""
        self._times.append(time.time())
        self.latencies.append(latency)
        self._write(latency)

    def factor(self, moment: float) -> float:
        """How many times as long as at first a trial took at a Unix timestamp; 1 unless it differs by more than noise."""
        if len(self._times) < 2 * _WINDOW:
            return 1.0
        nearest = np.argsort(np.abs(np.subtract(self._times, moment)), kind="stable")[:_WINDOW]
        factor = float(np.median(np.take(self.latencies, nearest)) / np.median(self.latencies[:_WINDOW]))
        return factor if abs(np.log(factor)) > _NOISE else 1.0

    @property
    def range(self) -> float:
        """The largest factor divided by the smallest."""
        factors = [self.factor(moment) for moment in self._times]
        return max(factors, default=1.0) / min(factors, default=1.0)
