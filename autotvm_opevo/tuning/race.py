"""A race: which of several alternatives is the fastest, by interleaved timings. Imports no TVM.

Each round times all of them, so that a drift of the machine affects them alike, in memory of its
own, whose place alone makes a program faster or slower. So what counts is the ratio of two
latencies within a round, and a round is one observation.

Who looks after every round and stops at a lucky one is misled far more often than a t interval
says. The intervals here hold at all numbers of rounds at once (Wang and Ramdas 2023, "Anytime-valid
t-tests and confidence sequences for Gaussian means with unknown variance"): a mean is outside only
once the Bayes factor of a t test against it, with a Gaussian prior on the effect size, exceeds
1 / alpha: with probability alpha at most (Ville).

Two things are decided so: which network or operator is the fastest of those compared (`Race.run`),
and, when tuning ends, which trial of a task is (`confirm`): the lowest of many noisy measurements
belongs to the luckiest trial as much as to the fastest.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from math import comb, exp, inf, sqrt
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from autotvm_opevo._utils.timeouts import run_with_timeout

if TYPE_CHECKING:  # which readers of a run log do not need
    from autotvm_opevo.tuning.measurer import Finalist, Measurer
    from autotvm_opevo.tuning.programs import Timed

# Variance of the prior on the effect size, the mean divided by the standard deviation. The interval
# holds with any; with this one it is tight after five to fifteen rounds.
_PRIOR_VARIANCE = 10.0
# Rounds before a race is finished, since few can be alike by chance, and the relative difference
# that does not matter.
MIN_ROUNDS, _INDIFFERENCE = 5, 0.01
# How often each program is timed in a round, unless this takes so many seconds: rounds tell more.
_REPEATS, _ROUND_SECONDS = 3, 0.5
# Seconds after which a round hangs, and that it has to end after Ctrl-C.
_ROUND_TIMEOUT = 600.0
GRACE = 5.0

# In a confirmation, the rounds after which there is a winner, and after which there are no more;
# and the probability that not all intervals hold: to drop one that is nearly as fast costs less
# than the time of more rounds.
_FIRST_ROUNDS, _LAST_ROUND = 3, 15
_CONFIRMATION_ALPHA = 0.5


class Estimate(NamedTuple):
    """A positive quantity and its confidence interval; differences are those of a ratio."""

    value: float
    low: float
    high: float

    @property
    def is_significant(self) -> bool:
        """Whether the interval excludes that both are equally fast."""
        return not self.low <= 1.0 <= self.high

    @property
    def is_slower(self) -> bool:
        """Whether what is compared is slower, by a difference that is told apart and matters.

        >>> Estimate(0.95, low=0.93, high=0.98).is_slower
        True
        >>> Estimate(0.95, 0.89, 1.02).is_slower, Estimate(0.995, 0.99, 0.999).is_slower
        (False, False)
        """
        return self.high < 1.0 and self.value <= 1.0 - _INDIFFERENCE

    @property
    def difference(self) -> float:
        """The largest relative difference in the interval."""
        return max(self.high, 1.0 / self.low if self.low > 0 else inf) - 1.0


def geometric_mean(values: Sequence[float], alpha: float = 0.05) -> Estimate:
    """Geometric mean of positive values, and its interval, which holds at all lengths of `values`
    but with probability `alpha`, if their logarithms are independent and Gaussian.

    >>> mean, low, high = geometric_mean([1.10, 1.13, 1.12, 1.15, 1.11, 1.10])
    >>> f"{mean:.2f} ({low:.2f} to {high:.2f})"
    '1.12 (1.08 to 1.16)'
    """
    logarithms = np.log(values)
    # Half the width, where the Bayes factor ((1 + u) / (1 + u / r)) ** (n / 2) / sqrt(r),
    # with u = t**2 / (n - 1), is 1 / alpha.
    n = len(logarithms)
    r = 1.0 + n * _PRIOR_VARIANCE
    q = (sqrt(r) / alpha) ** (2.0 / n)
    margin = sqrt((q - 1.0) / (1.0 - q / r)) * float(logarithms.std()) if q < r else inf
    mean = float(logarithms.mean())
    return Estimate(exp(mean), exp(mean - margin), exp(mean + margin) if margin < inf else inf)


class Race:
    """Latencies of alternatives by round, and which of them may be the fastest.

    Parameters
    ----------
    size : int
        Number of alternatives.
    contestants : sequence of int
        Those of which the fastest is wanted, by position; the intervals of their ratios hold
        together. All by default.
    alpha : float
        Probability that they do not.

    Examples
    --------
    >>> race = Race(3)
    >>> for noise in (1.01, 0.99, 1.0, 1.02, 0.98):
    ...     race.add([0.010, 0.012 * noise, 0.015 / noise])
    >>> race.finished, race.fastest, race.racing, f"{race.speedup(0, 1).value:.2f}"
    (True, 0, [0], '1.20')
    """

    def __init__(
        self, size: int, contestants: Sequence[int] | None = None, alpha: float = 0.05
    ) -> None:
        # by round, of each alternative; infinite if it failed, or does not race any more
        self.latencies: list[list[float]] = []
        self.size, self.alpha = size, alpha
        self.contestants = list(range(size)) if contestants is None else list(contestants)

    def add(self, latencies: Sequence[float]) -> None:
        """Add a round."""
        self.latencies.append(list(latencies))

    def seconds(self, i: int) -> list[float]:
        """Latencies of an alternative by round, as long as it races."""
        return [row[i] for row in self.latencies if row[i] < inf]

    def latency(self, i: int) -> Estimate:
        """Seconds of an alternative, a geometric mean over the rounds."""
        return geometric_mean(self.seconds(i), self.alpha)

    def speedup(self, i: int, j: int) -> Estimate:
        """How many times as fast as alternative `j` alternative `i` is."""
        pairs = comb(len(self.contestants), 2) if {i, j} <= {*self.contestants} else 1
        ratios = [row[j] / row[i] for row in self.latencies if max(row[i], row[j]) < inf]
        return geometric_mean(ratios, self.alpha / max(1, pairs))

    @property
    def racing(self) -> list[int]:
        """The contestants that may be the fastest: none that failed, or is slower for sure."""
        fit = self._fit
        if not self.latencies or not fit:
            return fit
        fastest = self.fastest
        return [i for i in fit if i == fastest or self.speedup(fastest, i).low <= 1.0]

    @property
    def fastest(self) -> int:
        """The contestant that seems the fastest: its latency has the lowest median, relative to the
        median of its round, so that neither drift nor a few outliers matter.
        """
        fit = self._fit
        latencies = np.array(self.latencies)[:, fit]
        relative = latencies / np.median(latencies, axis=1, keepdims=True)
        return fit[int(np.median(relative, axis=0).argmin())]

    @property
    def finished(self) -> bool:
        """Whether more rounds would tell nothing: all others are told apart, or within 1%."""
        racing = self.racing
        if len(self.latencies) < MIN_ROUNDS or not racing:
            return not racing
        fastest = self.fastest
        return all(
            self.speedup(fastest, i).difference < _INDIFFERENCE for i in racing if i != fastest
        )

    @property
    def _fit(self) -> list[int]:
        """The contestants that have not failed, nor left."""
        return [i for i in self.contestants if all(row[i] < inf for row in self.latencies)]

    def order(self, positions: Sequence[int]) -> list[int]:
        """The order to time them in: each round begins with another, since what comes first is in
        another place, and slower in a new process.
        """
        first = len(self.latencies) % max(1, len(positions))
        return [*positions[first:], *positions[:first]]

    def run(
        self, alternatives: Sequence[Callable[[], Timed]], end: float, max_rounds: int = 100
    ) -> str:
        """Time programs interleaved, round after round, until more would tell nothing, or until
        `end`, by ``time.monotonic()``. After Ctrl-C there are the latencies of all complete rounds.

        Each of `alternatives` returns a program in newly allocated memory, which is freed at the
        end of the round. Returns why it ended: ``"decided"``, ``"time limit"`` or ``"rounds"``.

        Raises
        ------
        TimeoutError
            If a round hangs.
        """

        def time_round() -> list[float]:
            order = self.order(range(self.size))
            instances = [alternatives[i]() for i in order]
            end = time.monotonic() + _ROUND_SECONDS
            rows = [[instance.seconds() for instance in instances]]
            while len(rows) < _REPEATS and time.monotonic() < end:
                rows.append([instance.seconds() for instance in instances])
            medians = dict(zip(order, np.median(rows, axis=0).tolist()))
            return [medians[i] for i in range(self.size)]

        while not self.finished:
            if len(self.latencies) >= max_rounds:
                return "rounds"
            if time.monotonic() >= end:
                return "time limit"
            self.add(run_with_timeout(_ROUND_TIMEOUT, time_round, "a round of timings", GRACE))
        return "decided"


def confirm(
    tasks: Sequence[Sequence[Finalist]], measurer: Measurer, seconds: float
) -> Iterator[tuple[int, Race]]:
    """Let the finalists of several tasks race, the first tasks first when time is short; after so
    many seconds, no round is begun. One that has no rival races, too: its latency is confirmed.

    Those that are slower with confidence leave (Maron and Moore, 1994). Yields the position and the
    race of each task, as soon as it is finished, or when the time is over, if anything races.
    """
    end = time.monotonic() + seconds
    races = {i: Race(len(own), alpha=_CONFIRMATION_ALPHA) for i, own in enumerate(tasks) if own}
    turns = [i for i in races for _ in range(_FIRST_ROUNDS)]
    while turns and time.monotonic() < end:
        for i in turns:
            if i in races and time.monotonic() < end:
                race = races[i]
                measurer.restart()
                latencies = {j: measurer.retime(tasks[i][j]) for j in race.order(race.racing)}
                race.add([latencies.get(j, inf) for j in range(race.size)])
                if race.finished or len(race.latencies) >= _LAST_ROUND:
                    del races[i]
                    if race.racing:
                        yield i, race
        turns = list(races)
    for i, race in races.items():
        if race.racing and len(race.latencies) >= _FIRST_ROUNDS:
            yield i, race
