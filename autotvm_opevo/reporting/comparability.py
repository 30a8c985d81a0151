"""Whether the latencies in two logs can be compared: a machine may have been slower while one of them was written."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from autotvm_opevo._utils.text import pluralize
from autotvm_opevo.reporting.logs import TuningLog

# With fewer configurations in both logs, there is no interval of this confidence.
_MIN_SHARED, _CONFIDENCE = 6, 0.95
# A smaller difference does not matter.
_INDIFFERENCE = 0.03
# An interval that reaches farther from 1, as a logarithm, says little.
_CLEAR = 0.1


@dataclass(frozen=True)
class Comparability:
    """How many times as long the same took while one log was written as while another was.

    Attributes
    ----------
    ratio, low, high : float
        The median, and its confidence interval; NaN if nothing is known.
    basis : str
        What was compared.
    """

    ratio: float
    low: float
    high: float
    basis: str

    @property
    def is_unclear(self) -> bool:
        """Whether it is not even known how much the difference may be."""
        return not self.differs and not max(-math.log(self.low), math.log(self.high)) <= _CLEAR

    @property
    def differs(self) -> bool:
        """Whether the difference is more than noise, and matters."""
        return (self.low > 1 or self.high < 1) and abs(math.log(self.ratio)) > _INDIFFERENCE


def compare(log: TuningLog, other: TuningLog) -> Comparability:
    """Compare how long the same took in both logs: configurations that both have, else a kernel that stays the same."""
    common = [(task, other.tasks[key]) for key, task in log.tasks.items() if key in other.tasks]
    ratios = [ratio for task, same in common for ratio in task.ratios(same)]
    if len(ratios) >= _MIN_SHARED:
        return _of_ratios(ratios, f"{pluralize(len(ratios), 'configuration')} that both have")
    mine, theirs = log.runs, other.runs
    is_same_kernel = list(mine.yardsticks)[-1:] == list(theirs.yardsticks)[-1:]
    if is_same_kernel and min(len(mine.yardstick), len(theirs.yardstick)) >= _MIN_SHARED:
        median = float(np.median([latency for _, latency in theirs.yardstick]))
        return _of_ratios([latency / median for _, latency in mine.yardstick], "a kernel that was timed for both again and again")
    return Comparability(math.nan, math.nan, math.nan, f"{pluralize(len(ratios), 'configuration')} that both have")


def _of_ratios(ratios: Sequence[float], basis: str) -> Comparability:
    """The median, with the interval between order statistics that holds for any distribution."""
    ordered = np.sort(ratios)
    skipped = int(stats.binom.ppf((1 - _CONFIDENCE) / 2, len(ordered), 0.5)) - 1
    return Comparability(float(np.median(ordered)), float(ordered[skipped]), float(ordered[-1 - skipped]), basis)
