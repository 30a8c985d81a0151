"""The verdict on a log, in words: has tuning converged, how good and how sure is the result, where did the time go, what next."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from autotvm_opevo._utils.text import milliseconds, pluralize
from autotvm_opevo.reporting.commands import continue_command, longer_timeout
from autotvm_opevo.reporting.convergence import Expectation, expected_gain, gain_of_last
from autotvm_opevo.reporting.limits import AT_LIMIT, Limits
from autotvm_opevo.reporting.network import Network
from autotvm_opevo.reporting.time_remarks import time_remarks
from autotvm_opevo.reporting.timing import Array
from autotvm_opevo.reporting.trials import UNKNOWN_FAILURE, Task
from autotvm_opevo.reporting.tuning_log import TuningLog
from autotvm_opevo.tuning.result import COMPLETE, EXHAUSTED, describe_chosen
from autotvm_opevo.tuning.rounds import is_slower

# As many trials again are expected to bring less: tuning has converged.
CONVERGED = 0.01
_EXHAUSTED = "Every task ended: its search space is exhausted, or it stopped early"
# Number of operators, and of kinds, that are named.
_MAX_NAMES, _MAX_KINDS = 2, 3
# Parts of the page.
_OVERVIEW, _TASKS = "#overview", "#tasks"


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
        What to type; empty without.
    """

    question: str
    text: str
    link: str = ""
    known: bool = True
    command: str = ""


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
    best, limits = network.best_so_far(index), Limits(index, log, network)
    expected = expected_gain(best, _trials_per_operator(index, network))
    return [
        _converged(index, log, network, best, expected, limits.left),
        _how_good(index, log, network, limits),
        _how_sure(index, log, network),
        _time(index, log, network),
        _next(index, log, network, expected, limits),
    ]


def _converged(index: int, log: TuningLog, network: Network, best: Array, expected: Expectation | None, left: float) -> Answer:
    question = "Converged?"
    if unsolved := network.count_unsolved(index):
        return Answer(question, f"No: {pluralize(unsolved, 'operator')} without a successful trial.", _TASKS)
    if log.runs.stop_reason == EXHAUSTED:
        return Answer(question, f"Yes: {_EXHAUSTED[0].lower()}{_EXHAUSTED[1:]}.", _TASKS)
    if left < CONVERGED:
        return Answer(question, f"Yes: the machine's limits leave {max(0.0, left):.1%}.", _TASKS)
    if expected is None:
        late = len(best) > 1 and not np.isfinite(best[len(best) // 2])
        text = "Unknown: some operators had their first result late." if late else "Too early to tell."
        return Answer(question, text, _OVERVIEW, known=False)
    answer = "Probably" if expected.typical < CONVERGED else "Probably not"
    text = f"{answer}: the last quarter of the trials brought {_percent(gain_of_last(best, 0.25))}. "
    text += "As many trials again would bring "
    if left <= expected.typical:
        text += f"what the machine's limits leave, {_percent(left)}, if they go as other runs did."
    elif left <= expected.high:
        text += f"about {_percent(expected.typical)}; the machine's limits leave {_percent(left)}."
    else:
        text += f"about {_percent(expected.typical)}, and in one of ten runs more than {expected.high:.0%}."
    if log.runs.learned_from:
        text += " The runs that say so knew nothing of other tasks; this one did, so it may be less."
    return Answer(question, text, _OVERVIEW)


def _percent(gain: float) -> str:
    return f"{gain:.1%}" if gain < 0.1 else f"{gain:.0%}"


def _trials_per_operator(index: int, network: Network) -> float:
    """Mean number of trials of an operator, weighted by latency if that is less: trials of others say little."""
    solved = [one for one in network.operators_in(index) if one.seconds_in(index) < math.inf]
    trials = [sum(map(len, one.tasks_in(index))) for one in solved]
    if not solved:
        return 0.0
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
        why = "how fast this device can be is unknown: tune_network measures it if it is this machine's CPU"
        if limits.exceeded:
            why = f"the machine's limits were measured while it was slower than when it ran {limits.exceeded[0].name}"
        return Answer(question, f"{text}; {why}.", _TASKS, known=False)
    text += f", {1 / (1 + limits.left):.0%} of what this machine's limits allow"
    if log.runs.flops and log.runs.memory_bandwidth:
        threads = f", {pluralize(log.runs.threads, 'thread')}" if log.runs.threads else ""
        text += f" ({log.runs.flops / 1e9:.0f} GFLOPS, {log.runs.memory_bandwidth / 1e9:.0f} GB/s{threads})"
    if len(kinds := limits.reached_by_kind()) > 1:
        text += f": {', '.join(f'{kind} {min(1.0, reached):.0%}' for kind, reached in [*kinds.items()][:_MAX_KINDS])}"
    done = [one for one in limits.measured if limits.reached(one) > AT_LIMIT]
    if done:
        memory_bound = sum(one.fastest_in(index).journal_key in log.runs.memory_bound for one in done)
        which = f" ({memory_bound} of them memory-bound)" if memory_bound else ""
        text += f"; {len(done)} of {pluralize(len(operators), 'operator')} {'reaches' if len(done) == 1 else 'reach'} "
        text += f"{AT_LIMIT:.0%} of the limit{which}: more trials of those are hardly worth it"
    if others := [one for one in limits.measured if one not in done]:
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
        text = "Every best rests on one trial, maybe a lucky one: "
        if log.runs.timed and log.runs.timed == len(log.runs.starts):
            text += f"the run {'was too short' if log.runs.stop_reason in COMPLETE else 'ended too soon'} to time it again."
        else:
            text += "tune_network times the best again at the end of a run."
        return Answer(question, text + of_network, known=False)
    share = math.fsum(one.seconds_in(index) for one, _ in confirmed) / network.seconds_in(index)
    noise = np.median([found.spread for _, found in confirmed])
    text = (
        f"The best of {len(confirmed)} of {pluralize(len(solved), 'operator')}, {share:.0%} of the latency, was timed again in "
        f"turn; timings of the same configuration differ by {noise:.1%}"
    )
    if tied := [one.name for one, found in confirmed if found.ties]:
        text += f"; another configuration may be as fast for {_some(tied)}"
    if len(confirmed) < len(solved):
        text += "; the others rest on one trial each"
    return Answer(question, f"{text}.{of_network}", _TASKS)


def _some(names: Sequence[str]) -> str:
    """The first names, and the number of others.

    >>> _some(["a", "b", "c", "d"])
    'a, b and 2 others'
    """
    others = len(names) - _MAX_NAMES
    return " and ".join([", ".join(names[:_MAX_NAMES]), *([pluralize(others, "other")] if others > 0 else [])])


def _time(index: int, log: TuningLog, network: Network) -> Answer:
    question = "Where did the time go?"
    remarks = list(time_remarks(index, log, network))
    if not remarks:
        return Answer(question, "Unknown: the journal that tune_network writes has it.", known=False)
    return Answer(question, f"{'; '.join(remarks)}.", _OVERVIEW if log.runs.phases else _TASKS)


def _next(index: int, log: TuningLog, network: Network, expected: Expectation | None, limits: Limits) -> Answer:
    question = "What next?"
    made = _trials_of_last_network(log)
    trials = log.runs.budget if made < log.runs.budget else 2 * made
    if network.count_unsolved(index):
        return _next_for_unsolved(question, index, log, network, trials)
    if log.runs.speedup and is_slower(log.runs.speedup):
        return Answer(
            question,
            "Use the untuned network, which is faster as a whole: trials time each operator alone, in memory of its own.",
        )
    if log.runs.stop_reason == EXHAUSTED:
        return Answer(question, f"Nothing: use the result. {_EXHAUSTED}.", _TASKS)
    if limits.left < CONVERGED or limits.are_reached or (expected and expected.typical < CONVERGED):
        if log.runs.latency and log.runs.latency[1] >= log.runs.latency[0]:
            return Answer(question, "Nothing: the network as a whole was no faster than untuned, so more trials may not help it.")
        if limits.are_reached:
            return Answer(question, f"Nothing: use the result. Every operator reaches {AT_LIMIT:.0%} of its limit.", _TASKS)
        return Answer(question, "Nothing: use the result. Another seed, or a larger search space, may find more.")
    return _more(question, log, trials)


def _more(question: str, log: TuningLog, trials: int, why: str = "") -> Answer:
    """The command that continues, or how to do so in Python."""
    if command := continue_command(log.runs.command, trials, log.path):
        return Answer(question, f"{why}{'More trials' if '--trials' in command else 'As much time again'}:", command=command)
    return Answer(question, f"{why}More trials: tune again into this log, with trials={trials}.")


def _trials_of_last_network(log: TuningLog) -> int:
    """Number of trials that count for what the last run tuned; a log may have other networks."""
    own = {key for keys in (log.runs.networks or [{}])[-1] for key in keys}
    return sum(len(task) for task in log.tasks.values() if not own or task.journal_key in own)


def _next_for_unsolved(question: str, index: int, log: TuningLog, network: Network, trials: int) -> Answer:
    """More trials for what has none, more time for what always timed out; what else failed has to be looked at."""
    unsolved = [one for one in network.operators_in(index) if one.seconds_in(index) == math.inf]
    if not unsolved:
        untried = network.count_unsolved(index)
        return _more(
            question, log, trials, f"{pluralize(untried, 'operator')} {'has' if untried == 1 else 'have'} no trial yet. "
        )
    failures: Counter[str] = Counter()
    for task in (task for one in unsolved for task in one.tasks_in(index)):
        failures.update(task.failures)
    names = _some([one.name for one in unsolved])
    if not failures:
        return Answer(question, f"See why all trials of {names} failed.", _TASKS)
    kind = failures.most_common(1)[0][0]
    if "timeout" in kind and (command := longer_timeout(log.runs.command, trials, log.path)):
        return Answer(question, f"Trials of {names} failed, most often with {kind}. More time for each:", _TASKS, command=command)
    most = "" if kind == UNKNOWN_FAILURE else f", most often with {kind}"
    return Answer(question, f"See why all trials of {names} failed{most}.", _TASKS)
