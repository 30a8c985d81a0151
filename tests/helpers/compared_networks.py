"""Comparisons of networks: as if they had been timed, and timed for a moment only."""

from math import inf

from autotvm_opevo.tuning.comparison import Comparison
from autotvm_opevo.tuning.race import Race


def compared(before, after, rounds=6, error=0.0, noise=0.001):
    """A network before and after tuning, by latencies in seconds with a little noise."""
    comparison = Comparison(["tuned"], relative_errors=[error], stop_reason="decided")
    for i in range(rounds):
        comparison.race.add([before, after * (1 + noise * (-1) ** i)])
    return comparison


def time_two_rounds(monkeypatch):
    """Two rounds for everything, whatever they tell and however long they take."""
    run = Race.run

    def short(race, alternatives, end, max_rounds=0):
        return run(race, alternatives, inf, max_rounds=2)

    monkeypatch.setattr(Race, "run", short)
