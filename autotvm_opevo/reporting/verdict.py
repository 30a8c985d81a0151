"""The verdict on a log: has tuning converged, how good and how sure is the result, where did the
time go, what next.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from autotvm_opevo._utils.text import format_duration, milliseconds, pluralize
from autotvm_opevo.reporting.logs import TuningLog
from autotvm_opevo.reporting.network import Network, Operator
from autotvm_opevo.reporting.trials import UNKNOWN_FAILURE, Array, Task
from autotvm_opevo.tuning.result import EXHAUSTED, describe_aligned

# Tuning has converged if the last half of the trials brought less, with at least so many trials for
# each operator; before that, curves of recorded runs often fell again.
CONVERGED, MIN_TRIALS = 0.01, 64
# Failures that are a larger part of the trials deserve a remark.
_MANY_FAILURES = 0.25
# Number of operators that are named.
_MAX_NAMES = 2
# Parts of the page.
_OVERVIEW, _TASKS = "#overview", "#tasks"
# An operator that reaches more of its limit has little left that is worth a trial.
_AT_LIMIT = 0.9
# Limits that an operator exceeds by more were measured while the machine was slower: they are no
# limits.
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


class _Operators:
    """The operators of a log: what they take, and what they take at least on the machine that they
    were measured on.

    Parameters
    ----------
    index : int
        Of the log, among those of the network.
    log : TuningLog
    network : Network

    Attributes
    ----------
    solved : list of Operator
        Those with a successful trial.
    unsolved : int
        Number of those without, including those that only the journal mentions; `failed` has those
        with trials.
    total : float
        Seconds of those with a successful trial.
    measured : list of Operator
        Those whose limit was measured.
    exceeded : list of Operator
        Those that are so much faster than their limit that none of the limits can be believed.
    limits_known : bool
        Whether the limits are known, for all but a small part of the latency.
    """

    def __init__(self, index: int, log: TuningLog, network: Network) -> None:
        self.index, self.log = index, log
        tried = network.operators_in(index)
        self.solved = [operator for operator in tried if self.seconds(operator) < math.inf]
        self.failed = [operator for operator in tried if self.seconds(operator) == math.inf]
        self.unsolved = network.count_unsolved(index)
        self.total = math.fsum(map(self.seconds, self.solved))
        self.measured = [
            operator
            for operator in self.solved
            if operator.fastest_in(index).journal_key in log.runs.limits
        ]
        unknown = math.fsum(
            self.seconds(operator) for operator in self.solved if operator not in self.measured
        )
        self.exceeded = [
            operator for operator in self.measured if self.reached(operator) > _MAX_REACHED
        ]
        self.limits_known = (
            bool(self.solved) and not self.exceeded and unknown <= _MAX_UNKNOWN * self.total
        )

    def seconds(self, operator: Operator) -> float:
        """What an operator takes with its best configuration."""
        return operator.seconds_in(self.index)

    def limit(self, operator: Operator) -> float:
        """The seconds that an operator takes at least, with all its runs; what was not measured,
        such as of one that only moves data, is what it takes.
        """
        if operator not in self.measured:
            return self.seconds(operator)
        return (
            operator.count_in(self.index)
            * self.log.runs.limits[operator.fastest_in(self.index).journal_key]
        )

    def reached(self, operator: Operator) -> float:
        """The share of its limit that an operator reaches; above 1 if the limit, which is measured,
        was too high.
        """
        return self.limit(operator) / self.seconds(operator)

    @property
    def left(self) -> float:
        """The relative speedup up to the limits; infinite if they are unknown."""
        if not self.limits_known:
            return math.inf
        return (
            self.total
            / math.fsum(
                min(self.limit(operator), self.seconds(operator)) for operator in self.solved
            )
            - 1
        )


def verdict(index: int, log: TuningLog, network: Network) -> list[Answer]:
    """Answer the questions that one has after a run; none for a log without trials, or with the
    best of another log only.

    Parameters
    ----------
    index : int
        Of the log, among those of the network.
    log : TuningLog
    network : Network
    """
    if not len(log) or log.has_best_only:
        return []
    operators = _Operators(index, log, network)
    converged = _converged(operators, network)
    return [
        converged,
        _how_good(operators),
        _how_sure(operators),
        _time(log),
        _next(operators, converged.known and not converged.text.startswith("No")),
    ]


def gain_of_last(best: Array, part: float) -> float:
    """Relative speedup in the last part of the trials; infinite if there was no result before it,
    NaN if there is none.

    >>> gain_of_last(np.array([3.0, 2.0, 1.5, 1.0]), 0.5)
    1.0
    """
    before = best[max(0, round((1 - part) * len(best)) - 1)]
    return float(before) / float(best[-1]) - 1


def _converged(operators: _Operators, network: Network) -> Answer:
    question = "Converged?"
    if operators.unsolved:
        return Answer(
            question,
            f"No: {pluralize(operators.unsolved, 'operator')} without a successful trial.",
            _TASKS,
        )
    if operators.log.runs.stop_reason == EXHAUSTED:
        return Answer(
            question,
            "Yes: every task ended: its search space is exhausted, or it stopped early.",
            _TASKS,
        )
    if operators.left < CONVERGED:
        return Answer(
            question, f"Yes: the machine's limits leave {max(0.0, operators.left):.1%}.", _TASKS
        )
    gain = gain_of_last(network.best_so_far(operators.index), 0.5)
    if not math.isfinite(gain):
        return Answer(
            question, "Unknown: some operators had their first result late.", _OVERVIEW, known=False
        )
    brought = f"the last half of the trials brought {_percent(gain)}"
    if gain >= CONVERGED:
        return Answer(question, f"No: {brought}.", _OVERVIEW)
    # per operator, weighted by latency if that is less: trials of others say little
    trials = [sum(map(len, operator.tasks_in(operators.index))) for operator in operators.solved]
    weights = list(map(operators.seconds, operators.solved))
    if min(np.mean(trials), np.average(trials, weights=weights)) < MIN_TRIALS:
        return Answer(
            question,
            f"Too early to tell: fewer than {MIN_TRIALS} trials for an operator.",
            _OVERVIEW,
            known=False,
        )
    return Answer(question, f"Probably: {brought}.", _OVERVIEW)


def _percent(gain: float) -> str:
    return f"{gain:.1%}" if gain < 0.1 else f"{gain:.0%}"


def _how_good(operators: _Operators) -> Answer:
    question, index, log, seconds = "How good?", operators.index, operators.log, operators.total
    if not operators.solved:
        return Answer(question, "Unknown: no trial succeeded.", known=False)
    # NaN if the journal does not know a task
    known = {**dict.fromkeys(log.runs.names, 0.0), **log.runs.flop}
    flop = math.fsum(
        operator.count_in(index) * known.get(operator.fastest_in(index).journal_key, math.nan)
        for operator in operators.solved
    )
    partly = " for the operators with a successful trial" if operators.unsolved else ""
    text = f"{milliseconds(seconds)} ms{partly}" + (
        f", {flop / seconds / 1e9:.0f} GFLOPS" if flop > 0 else ""
    )
    if not operators.limits_known:
        slowest = [
            operator.name
            for operator in sorted(operators.solved, key=operators.seconds, reverse=True)
        ]
        why = (
            "how fast this device can be is unknown: tune_network measures it if it is this "
            "machine's CPU"
        )
        why += f". Most of it is {_some(slowest)}"
        if operators.exceeded:
            why = (
                "the machine's limits were measured while it was slower than when it ran "
                f"{operators.exceeded[0].name}"
            )
        return Answer(question, f"{text}; {why}.", _TASKS, known=False)
    text += f", {1 / (1 + operators.left):.0%} of what this machine's limits allow"
    if others := [o for o in operators.measured if operators.reached(o) <= _AT_LIMIT]:
        most = max(others, key=lambda o: operators.seconds(o) - operators.limit(o))
        text += f"; most is left in {most.name}, at {operators.reached(most):.0%} of its limit"
    return Answer(question, f"{text}.", _TASKS)


def _how_sure(operators: _Operators) -> Answer:
    question, runs = "How sure?", operators.log.runs
    confirmed = [
        (operator, confirmation)
        for operator in operators.solved
        if (confirmation := operator.fastest_in(operators.index).confirmation)
    ]
    of_network = (
        f" The file of the best has {describe_aligned(runs.aligned)}." if runs.aligned else ""
    )
    if not confirmed:
        text = (
            "Every best rests on one trial, maybe a lucky one: tune_network times the best "
            "again if a run is long enough."
        )
        return Answer(question, text + of_network, known=False)
    share = math.fsum(operators.seconds(operator) for operator, _ in confirmed) / operators.total
    noise = np.median([confirmation.spread for _, confirmation in confirmed])
    part = (
        f"{len(confirmed)} of {pluralize(len(operators.solved), 'operator')}, {share:.0%} of "
        "the latency"
    )
    text = f"{part}, confirmed in turn within {noise:.1%}"
    if tied := [operator.name for operator, confirmation in confirmed if confirmation.ties]:
        text += f"; another configuration may be as fast for {_some(tied)}"
    return Answer(question, f"{text}.{of_network}", _TASKS)


def _some(names: Sequence[str]) -> str:
    """The first names, and the number of others.

    >>> _some(["a", "b", "c", "d"])
    'a, b and 2 others'
    """
    others = len(names) - _MAX_NAMES
    return " and ".join(
        [", ".join(names[:_MAX_NAMES]), *([pluralize(others, "other")] if others > 0 else [])]
    )


def _time(log: TuningLog) -> Answer:
    question = "Where did the time go?"
    phases = sorted(log.runs.phases.items(), key=lambda item: -item[1])
    parts = [f"{phase} {format_duration(seconds)}" for phase, seconds in phases if seconds >= 0.5]
    if len(log.runs.starts) > log.runs.runs_ended or not parts:  # killed runs did not tell
        since = "in all" if log.runs.starts else "since the first result"
        parts += (
            [f"{format_duration(float(log.elapsed[-1]))} {since}"]
            if len(log.elapsed) and log.elapsed[-1] > 0
            else []
        )
    failures = _failures(log.tasks.values())
    if (count := sum(failures.values())) > _MANY_FAILURES * len(log):
        kind, most = failures.most_common(1)[0]
        of_kind = f", {most} with {kind}" if kind != UNKNOWN_FAILURE else ""
        parts.append(f"{count / len(log):.0%} of the trials failed{of_kind}")
    if not parts:
        return Answer(
            question, "Unknown: the journal that tune_network writes has it.", known=False
        )
    return Answer(question, f"{', '.join(parts)}.", _OVERVIEW if log.runs.phases else _TASKS)


def _failures(tasks: Iterable[Task]) -> Counter[str]:
    """Number of failed trials by kind of failure."""
    return sum((task.failures for task in tasks), Counter())


def _next(operators: _Operators, converged: bool) -> Answer:
    question, log, runs = "What next?", operators.log, operators.log.runs
    # The trials that count for what the last run tuned; a log may have other networks.
    own = {key for keys in (runs.networks or [{}])[-1] for key in keys}
    made = sum(len(task) for task in log.tasks.values() if not own or task.journal_key in own)
    trials = runs.budget if made < runs.budget else 2 * made
    more = Answer(
        question, f"More trials: tune again into this log, {trials} in all.", command=runs.command
    )
    if runs.stop_reason == "time limit":
        more = Answer(
            question, "More time: tune again into this log, for as long.", command=runs.command
        )
    if operators.unsolved:
        return _next_for_failed(operators) if operators.failed else more
    if runs.speedup and runs.speedup.is_slower:
        text = (
            "Nothing: the best file has the untuned network, which is faster as a whole. Trials "
            "time each operator alone, in memory of its own."
        )
        return Answer(question, text)
    if not (
        converged
        or (
            operators.limits_known
            and all(operators.reached(operator) > _AT_LIMIT for operator in operators.solved)
        )
    ):
        return more
    if runs.latency and runs.latency[1] >= runs.latency[0]:
        return Answer(
            question,
            "Nothing: the network as a whole was no faster than untuned, so more trials may "
            "not help it.",
        )
    return Answer(
        question, "Nothing: use the result. Another seed, or a larger search space, may find more."
    )


def _next_for_failed(operators: _Operators) -> Answer:
    """More time for what always timed out; what else failed has to be looked at."""
    failures = _failures(
        task for operator in operators.failed for task in operator.tasks_in(operators.index)
    )
    kind = failures.most_common(1)[0][0] if failures else UNKNOWN_FAILURE
    most = "" if kind == UNKNOWN_FAILURE else f", most often with {kind}"
    what = "give each trial more time" if "timeout" in kind else "see why"
    names = _some([operator.name for operator in operators.failed])
    return Answer("What next?", f"All trials of {names} failed{most}: {what}.", _TASKS)
