"""Drift of a machine: it becomes slower and faster within minutes, and measurements with it. Imports no TVM.

A yardstick, a kernel that stays the same, is timed again and again. What it takes around a moment, divided by what it took at
first, tells how many times as long the trials of that moment took as they would have at first.
"""

from __future__ import annotations

import math
import time
from bisect import bisect, insort
from collections.abc import Callable, Iterable
from statistics import median

# Number of timings of the yardstick that count at first, and around a moment.
WINDOW = 3
# Seconds between two timings, and from a moment to the farthest that counts.
_INTERVAL, _REACH = 2.0, 60.0
# A smaller relative difference may be the yardstick's own noise.
_NOISE = 0.05
# A machine whose speed varied by more deserves a warning.
NOTABLE = 1.1


class Drift:
    """Latencies of the yardstick over time; one thread may add some while others ask.

    Parameters
    ----------
    known : iterable of (float, float)
        Unix timestamps and latencies in seconds, of earlier runs.
    write : callable, optional
        Gets every new latency, in seconds.

    Examples
    --------
    >>> drift = Drift([(0.0, 1.0), (5.0, 1.0), (10.0, 1.02), (15.0, 1.5), (20.0, 1.5), (25.0, 1.51)])
    >>> drift.factor(5.0), drift.factor(20.0), drift.range
    (1.0, 1.5, 1.5)
    """

    def __init__(self, known: Iterable[tuple[float, float]] = (), write: Callable[[float], None] = lambda _: None) -> None:
        self._timed = sorted(known)
        self._write = write

    @property
    def due(self) -> bool:
        """Whether the yardstick should be timed now; a clock that was set back does not matter."""
        return not self._timed or not 0 <= time.time() - self._timed[-1][0] < _INTERVAL

    def add(self, latency: float) -> bool:
        """Add the yardstick's latency now, in seconds.

        Returns whether it differs notably from the one before: the machine's speed has changed, or the timing was disturbed. To
        tell which, time it `WINDOW` times in all.
        """
        before = self._timed[-1][1] if self._timed else latency
        insort(self._timed, (time.time(), latency))
        self._write(latency)
        return not 1 / NOTABLE < latency / before < NOTABLE

    def factor(self, moment: float) -> float:
        """How many times as long as at first a trial took at a Unix timestamp.

        1 if that is unknown, or differs by no more than noise. Of what it was before and after that moment, the smaller: other
        work comes and goes, and a trial that it did not slow down must not seem to be the best.
        """
        timed = self._timed
        i = bisect(timed, (moment, 0.0))
        before, after = timed[max(0, i - WINDOW) : i], timed[i : i + WINDOW]
        around = [pair for pair in before + after if abs(pair[0] - moment) <= _REACH]
        if len(timed) < 2 * WINDOW or len(around) < WINDOW:
            return 1.0
        nearest = sorted(around, key=lambda pair: abs(pair[0] - moment))[:WINDOW]
        sides = [before, after] if len(around) == 2 * WINDOW else [nearest]
        factor = min(map(_median, sides)) / _median(timed[:WINDOW])
        return factor if abs(math.log(factor)) > _NOISE else 1.0

    @property
    def range(self) -> float:
        """The largest factor divided by the smallest."""
        factors = [self.factor(moment) for moment, _ in list(self._timed)]
        return max(factors, default=1.0) / min(factors, default=1.0)


def without_drift(latency: float, factor: float, limit: float = 0.0) -> float:
    """A latency in seconds as it would have been at first, but not below its limit: what makes a trial faster than the machine is
    no drift.

    >>> without_drift(3.0, 1.5), without_drift(3.0, 1.5, limit=2.5), without_drift(3.0, 1.5, limit=4.0)
    (2.0, 2.5, 3.0)
    """
    return max(latency / factor, min(latency, limit))


def _median(timed: Iterable[tuple[float, float]]) -> float:
    return median(latency for _, latency in timed)
