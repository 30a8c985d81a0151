"""The verdict on a log: has tuning converged, how good and how sure is the result, where did the time go, what next."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from autotvm_opevo._utils.text import format_duration, milliseconds, pluralize
from autotvm_opevo.reporting.logs import TuningLog
from autotvm_opevo.reporting.network import Network, Operator
from autotvm_opevo.reporting.trials import UNKNOWN_FAILURE, Array, Task
from autotvm_opevo.tuning.result import EXHAUSTED, describe_chosen
from autotvm_opevo.tuning.rounds import is_slower

# Tuning has converged if the last half of the trials brought less, with at least so many trials for each operator; before that,
# curves of recorded runs often fell again.
CONVERGED, MIN_TRIALS = 0.01, 64
_EXHAUSTED = "every task ended: its search space is exhausted, or it stopped early"
# Failures that are a larger part of the trials deserve a remark.
_MANY_FAILURES = 0.25
# Number of operators that are named.
_MAX_NAMES = 2
# Parts of the page.
_OVERVIEW, _TASKS = "#overview", "#tasks"
# An operator that reaches more of its limit has little left that is worth a trial.
_AT_LIMIT = 0.9
# Limits that an operator exceeds by more were measured while the machine was slower: they are no limits.
_MAX_REACHED = 1.5
# Of limits that are unknown for a larger part of the latency, nothing is said.
_MAX_UNKNOWN = 0.05


@dataclass(frozen=True)
class Answer:
    """One line of a verdict.

    Attributes
    ----------
    question, text : str
    link : str
        Where the page shows it, as ``#id``; empty if nowhere.
    known : bool
        False if the log and its journal do not have the answer; `text` says how to get it.
    command : str
        The command that tuned, if it is to be given again; empty without.
    """

    question: str
    text: str
    link: str = ""
    known: bool = True
    command: str = ""


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
        return self.known and all(self.reached(one) > _AT_LIMIT for one in self.operators)


def verdict(index: int, log: TuningLog, network: Network) -> list[Answer]:
    """Answer the questions that one has after a run; none for a log without trials, or with the best of another log only.

    Parameters
    ----------
    index : int
        Of the log, among those of the network.
    log : TuningLog
    network : Network
    """
    if not len(log) or log.has_best_only:
        return []
    limits = Limits(index, log, network)
    converged = _converged(index, log, network, limits.left)
    return [
        converged,
        _how_good(index, log, network, limits),
        _how_sure(index, log, network),
        _time(log),
        _next(index, log, network, limits, converged.known and not converged.text.startswith("No")),
    ]


def gain_of_last(best: Array, part: float) -> float:
    """Relative speedup in the last part of the trials; infinite if there was no result before it, NaN if there is none.

    >>> gain_of_last(np.array([3.0, 2.0, 1.5, 1.0]), 0.5)
    1.0
    """
    before = best[max(0, round((1 - part) * len(best)) - 1)]
    return float(before) / float(best[-1]) - 1


def _converged(index: int, log: TuningLog, network: Network, left: float) -> Answer:
    question, best = "Converged?", network.best_so_far(index)
    if unsolved := network.count_unsolved(index):
        return Answer(question, f"No: {pluralize(unsolved, 'operator')} without a successful trial.", _TASKS)
    if log.runs.stop_reason == EXHAUSTED:
        return Answer(question, f"Yes: {_EXHAUSTED}.", _TASKS)
    if left < CONVERGED:
        return Answer(question, f"Yes: the machine's limits leave {max(0.0, left):.1%}.", _TASKS)
    gain = gain_of_last(best, 0.5)
    if not math.isfinite(gain):
        return Answer(question, "Unknown: some operators had their first result late.", _OVERVIEW, known=False)
    brought = f"the last half of the trials brought {_percent(gain)}"
    if gain >= CONVERGED:
        return Answer(question, f"No: {brought}.", _OVERVIEW)
    if _trials_per_operator(index, network) < MIN_TRIALS:
        return Answer(question, f"Too early to tell: fewer than {MIN_TRIALS} trials for an operator.", _OVERVIEW, known=False)
    return Answer(question, f"Probably: {brought}.", _OVERVIEW)


def _percent(gain: float) -> str:
    return f"{gain:.1%}" if gain < 0.1 else f"{gain:.0%}"


def _trials_per_operator(index: int, network: Network) -> float:
    """Mean number of trials of an operator, weighted by latency if that is less: trials of others say little."""
    solved = [one for one in network.operators_in(index) if one.seconds_in(index) < math.inf]
    trials = [sum(map(len, one.tasks_in(index))) for one in solved]
    return float(min(np.mean(trials), np.average(trials, weights=[one.seconds_in(index) for one in solved])))


def _how_good(index: int, log: TuningLog, network: Network, limits: Limits) -> Answer:
    question, operators = "How good?", limits.operators
    if not operators:
        return Answer(question, "Unknown: no trial succeeded.", known=False)
    seconds = math.fsum(map(limits.seconds, operators))
    flop = math.fsum(one.count_in(index) * _flop(one.fastest_in(index), log) for one in operators)
    partly = " for the operators with a successful trial" if network.count_unsolved(index) else ""
    text = f"{milliseconds(seconds)} ms{partly}" + (f", {flop / seconds / 1e9:.0f} GFLOPS" if flop > 0 else "")
    if not limits.known:
        slowest = [one.name for one in sorted(operators, key=limits.seconds, reverse=True)]
        why = "how fast this device can be is unknown: tune_network measures it if it is this machine's CPU"
        why += f". Most of it is {_some(slowest)}"
        if limits.exceeded:
            why = f"the machine's limits were measured while it was slower than when it ran {limits.exceeded[0].name}"
        return Answer(question, f"{text}; {why}.", _TASKS, known=False)
    text += f", {1 / (1 + limits.left):.0%} of what this machine's limits allow"
    if others := [one for one in limits.measured if limits.reached(one) <= _AT_LIMIT]:
        most = max(others, key=lambda one: limits.seconds(one) - limits.limit(one))
        text += f"; most is left in {most.name}, at {limits.reached(most):.0%} of its limit"
    return Answer(question, f"{text}.", _TASKS)


def _flop(task: Task, log: TuningLog) -> float:
    """Operations of a task: none if the journal knows the task but no operations; NaN if it does not."""
    return log.runs.flop.get(task.journal_key, 0.0 if task.journal_key in log.runs.names else math.nan)


def _how_sure(index: int, log: TuningLog, network: Network) -> Answer:
    question = "How sure?"
    solved = [one for one in network.operators_in(index) if one.seconds_in(index) < math.inf]
    confirmed = [(one, found) for one in solved if (found := one.fastest_in(index).confirmation)]
    chosen = describe_chosen(log.runs.aligned, log.runs.kept_untuned)
    of_network = f" The file of the best has {' and '.join(chosen)}." if chosen else ""
    if not confirmed:
        text = "Every best rests on one trial, maybe a lucky one: tune_network times the best again if a run is long enough."
        return Answer(question, text + of_network, known=False)
    share = math.fsum(one.seconds_in(index) for one, _ in confirmed) / network.seconds_in(index)
    noise = np.median([found.spread for _, found in confirmed])
    operators = f"{len(confirmed)} of {pluralize(len(solved), 'operator')}, {share:.0%} of the latency"
    text = f"{operators}, confirmed in turn within {noise:.1%}"
    if tied := [one.name for one, found in confirmed if found.ties]:
        text += f"; another configuration may be as fast for {_some(tied)}"
    return Answer(question, f"{text}.{of_network}", _TASKS)


def _some(names: Sequence[str]) -> str:
    """The first names, and the number of others.

    >>> _some(["a", "b", "c", "d"])
    'a, b and 2 others'
    """
    others = len(names) - _MAX_NAMES
    return " and ".join([", ".join(names[:_MAX_NAMES]), *([pluralize(others, "other")] if others > 0 else [])])


def _time(log: TuningLog) -> Answer:
    question = "Where did the time go?"
    phases = sorted(log.runs.phases.items(), key=lambda item: -item[1])
    parts = [f"{phase} {format_duration(seconds)}" for phase, seconds in phases if seconds >= 0.5]
    if len(log.runs.starts) > log.runs.timed or not parts:  # killed runs did not tell
        since = "in all" if log.runs.starts else "since the first result"
        parts += [f"{format_duration(float(log.elapsed[-1]))} {since}"] if len(log.elapsed) and log.elapsed[-1] > 0 else []
    failures: Counter[str] = Counter()
    for task in log.tasks.values():
        failures.update(task.failures)
    if (count := sum(failures.values())) > _MANY_FAILURES * len(log):
        kind, most = failures.most_common(1)[0]
        of_kind = f", {most} with {kind}" if kind != UNKNOWN_FAILURE else ""
        parts.append(f"{count / len(log):.0%} of the trials failed{of_kind}")
    if not parts:
        return Answer(question, "Unknown: the journal that tune_network writes has it.", known=False)
    return Answer(question, f"{', '.join(parts)}.", _OVERVIEW if log.runs.phases else _TASKS)


def _next(index: int, log: TuningLog, network: Network, limits: Limits, converged: bool) -> Answer:
    question = "What next?"
    made = _trials_of_last_network(log)
    trials = log.runs.budget if made < log.runs.budget else 2 * made
    more = Answer(question, f"More trials: tune again into this log, {trials} in all.", command=log.runs.command)
    if log.runs.stop_reason == "time limit":
        more = Answer(question, "More time: tune again into this log, for as long.", command=log.runs.command)
    if network.count_unsolved(index):
        return _next_for_unsolved(index, network, more)
    if log.runs.speedup and is_slower(log.runs.speedup):
        text = "Use the untuned network, which is faster as a whole: trials time each operator alone, in memory of its own."
        return Answer(question, text)
    if not (converged or limits.are_reached):
        return more
    if log.runs.latency and log.runs.latency[1] >= log.runs.latency[0]:
        return Answer(question, "Nothing: the network as a whole was no faster than untuned, so more trials may not help it.")
    return Answer(question, "Nothing: use the result. Another seed, or a larger search space, may find more.")


def _trials_of_last_network(log: TuningLog) -> int:
    """Number of trials that count for what the last run tuned; a log may have other networks."""
    own = {key for keys in (log.runs.networks or [{}])[-1] for key in keys}
    return sum(len(task) for task in log.tasks.values() if not own or task.journal_key in own)


def _next_for_unsolved(index: int, network: Network, more: Answer) -> Answer:
    """More trials for what has none, more time for what always timed out; what else failed has to be looked at."""
    unsolved = [one for one in network.operators_in(index) if one.seconds_in(index) == math.inf]
    if not unsolved:
        return more
    failures: Counter[str] = Counter()
    for task in (task for one in unsolved for task in one.tasks_in(index)):
        failures.update(task.failures)
    kind = failures.most_common(1)[0][0] if failures else UNKNOWN_FAILURE
    most = "" if kind == UNKNOWN_FAILURE else f", most often with {kind}"
    what = "give each trial more time" if "timeout" in kind else "see why"
    return Answer(more.question, f"All trials of {_some([one.name for one in unsolved])} failed{most}: {what}.", _TASKS)
