"""How near a log's operators are to what the machine allows."""

from __future__ import annotations

import math

from autotvm_opevo.reporting.logs import TuningLog
from autotvm_opevo.reporting.network import Network, Operator

# An operator that reaches more of its limit has little left that is worth a trial.
AT_LIMIT = 0.9
# Limits that an operator exceeds by more were measured while the machine was slower: they are no limits.
_MAX_REACHED = 1.5
# Of limits that are unknown for a larger part of the latency, nothing is said.
_MAX_UNKNOWN = 0.05


class Limits:
    """What the operators of a log take, and what they take at least on the machine that they were measured on.

    Parameters
    ----------
    index : int
        Of the log, among those of the network.
    log : TuningLog
    network : Network

    Attributes
    ----------
    operators : list of Operator
        Those with a successful trial.
    measured : list of Operator
        Those whose limit was measured.
    exceeded : list of Operator
        Those that are so much faster than their limit that none of the limits can be believed.
    known : bool
        Whether the limits are known, for all but a small part of the latency.
    """

    def __init__(self, index: int, log: TuningLog, network: Network) -> None:
        self._index, self._log, self._network = index, log, network
        self.operators = [one for one in network.operators_in(index) if one.seconds_in(index) < math.inf]
        self.measured = [one for one in self.operators if one.fastest_in(index).journal_key in log.runs.limits]
        unknown = math.fsum(one.seconds_in(index) for one in self.operators if one not in self.measured)
        self.exceeded = [one for one in self.measured if self.reached(one) > _MAX_REACHED]
        self.known = bool(self.operators) and not self.exceeded and unknown <= _MAX_UNKNOWN * network.seconds_in(index)

    def seconds(self, operator: Operator) -> float:
        """What an operator takes with its best configuration."""
        return operator.seconds_in(self._index)

    def limit(self, operator: Operator) -> float:
        """The seconds that an operator takes at least, with all its runs; what was not measured, such as of one that only moves
        data, is what it takes.
        """
        if operator not in self.measured:
            return self.seconds(operator)
        return operator.count_in(self._index) * self._log.runs.limits[operator.fastest_in(self._index).journal_key]

    def reached(self, operator: Operator) -> float:
        """The share of its limit that an operator reaches; above 1 if the limit, which is measured, was too high."""
        return self.limit(operator) / self.seconds(operator)

    @property
    def left(self) -> float:
        """The relative speedup up to the limits; infinite if they are unknown."""
        if not self.known:
            return math.inf
        total = math.fsum(map(self.seconds, self.operators))
        return total / math.fsum(min(self.limit(one), self.seconds(one)) for one in self.operators) - 1

    @property
    def are_reached(self) -> bool:
        """Whether every operator is near its limit."""
        return self.known and all(self.reached(one) > AT_LIMIT for one in self.operators)
