"""Has tuning converged? What as many trials again would bring, from what the last ones brought.

No curve says for certain that it will not fall again. The expectations are of recorded runs: how much faster `OpEvo` made a
network of operators by doubling its trials, in runs with as many trials for each operator whose last half of the trials had
brought as much. ``python -m benchmarks.convergence`` computes them, and how often they are right.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

import numpy as np

from autotvm_opevo.reporting.timing import Array

# Fewer trials, and fewer per operator, say nothing.
MIN_TRIALS = 16
MIN_TRIALS_PER_OPERATOR = 8
# Bounds between the rows and the columns of `_EXPECTED`: what the last half of the trials brought, and trials per operator.
GAINS = (0.01, 0.05, 0.15)
TRIALS = (16, 64, 128)


class Expectation(NamedTuple):
    """Relative speedup by as many trials again: the median of recorded runs, and what one in ten exceeded."""

    typical: float
    high: float


_EXPECTED = (
    ((0.150, 0.751), (0.029, 0.302), (0.007, 0.158), (0.000, 0.041)),
    ((0.179, 0.614), (0.064, 0.315), (0.021, 0.135), (0.007, 0.054)),
    ((0.184, 0.566), (0.093, 0.299), (0.030, 0.110), (0.009, 0.054)),
    ((0.166, 0.547), (0.129, 0.368), (0.031, 0.117), (0.002, 0.042)),
)


def gain_of_last(best: Array, part: float) -> float:
    """Relative speedup in the last part of the trials; infinite if there was no result before it, NaN if there is none.

    >>> gain_of_last(np.array([3.0, 2.0, 1.5, 1.0]), 0.5)
    1.0
    """
    before = best[max(0, round((1 - part) * len(best)) - 1)]
    return float(before) / float(best[-1]) - 1


def expected_gain(best: Array, per_operator: float) -> Expectation | None:
    """What as many trials again would bring.

    Parameters
    ----------
    best : array of float
        Latency of the network after each trial, infinite until every operator has a successful one.
    per_operator : float
        Number of trials of an operator.

    Returns
    -------
    Expectation or None
        None if it is too early to tell.
    """
    if len(best) < MIN_TRIALS or per_operator < MIN_TRIALS_PER_OPERATOR:
        return None
    gain = gain_of_last(best, 0.5)
    if not np.isfinite(gain):
        return None
    return Expectation(*_EXPECTED[bisect_right(GAINS, gain)][bisect_right(TRIALS, per_operator)])
