"""The verdict on a log, in words: has tuning converged, how good and how sure is the result, where did the time go, what next."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from autotvm_opevo._utils.text import milliseconds, pluralize
from autotvm_opevo.reporting.commands import continue_command, longer_timeout
from autotvm_opevo.reporting.convergence import Expectation, expected_gain, gain_of_last
from autotvm_opevo.reporting.formatting import format_duration
from autotvm_opevo.reporting.network import Network, Operator
from autotvm_opevo.reporting.timing import Array
from autotvm_opevo.reporting.trials import Task
from autotvm_opevo.reporting.tuning_log import TuningLog
from autotvm_opevo.tuning.result import describe_chosen
from autotvm_opevo.tuning.rounds import is_slower

# As many trials again are expected to bring less: tuning has converged.
CONVERGED = 0.01
# An operator that reaches more of its limit has little left that is worth a trial.
_AT_LIMIT = 0.9
# Of limits that are unknown for a larger part of the latency, nothing is said.
_MAX_UNKNOWN = 0.05
# Failures that are a larger part of the trials deserve a remark.
_MANY_FAILURES = 0.25
# So do timeouts that cost a larger part of what building and running all trials cost, side by side or not.
_MANY_TIMEOUTS = 0.1
# A task whose share of the time is this many times its share of the latency, and above the minimum, deserves one, too.
_OUT_OF_PROPORTION, _MIN_SHARE = 2.0, 0.25
# Number of operators that are named.
_MAX_NAMES = 2
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
    """Answer the questions that one has after a run.

    Parameters
    ----------
    index : int
        Of the log, among those of the network.
    log : TuningLog
    network : Network
    """
    if not len(log):
        return []
    best, left = network.best_so_far(index), _left(index, log, network)
    expected = expected_gain(best, _trials_per_operator(index, network))
    return [
        _converged(index, network, best, expected, left),
        _how_good(index, log, network, left),
        _how_sure(index, log, network),
        _time(index, log, network),
        _next(index, log, network, expected, left),
    ]


def _converged(index: int, network: Network, best: Array, expected: Expectation | None, left: float) -> Answer:
    question = "Converged?"
    if unsolved := network.count_unsolved(index):
        return Answer(question, f"No: {pluralize(unsolved, 'operator')} without a successful trial.", _TASKS)
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


def _limits(index: int, log: TuningLog, network: Network) -> dict[str, float]:
    """By operator with a successful trial: the seconds that it takes at least on the machine, with all its runs.

    Empty if unknown for more than a small part of the latency. What is unknown, as for operators that only move data, counts as
    what it takes.
    """
    solved = [one for one in network.operators_in(index) if one.seconds_in(index) < math.inf]
    limits = {one.name: one.count_in(index) * log.runs.limits.get(_fastest(one, index).journal_key, math.nan) for one in solved}
    unknown = math.fsum(one.seconds_in(index) for one in solved if math.isnan(limits[one.name]))
    if unknown > _MAX_UNKNOWN * network.seconds_in(index):
        return {}
    return {one.name: one.seconds_in(index) if math.isnan(limits[one.name]) else limits[one.name] for one in solved}


def _left(index: int, log: TuningLog, network: Network) -> float:
    """The relative speedup up to the machine's limits; infinite if they are unknown."""
    if not (limits := _limits(index, log, network)):
        return math.inf
    seconds = {one.name: one.seconds_in(index) for one in network.operators_in(index)}
    return network.seconds_in(index) / math.fsum(min(limit, seconds[name]) for name, limit in limits.items()) - 1


def _how_good(index: int, log: TuningLog, network: Network, left: float) -> Answer:
    question, solved = "How good?", [one for one in network.operators_in(index) if one.seconds_in(index) < math.inf]
    if not solved:
        return Answer(question, "Unknown: no trial succeeded.", known=False)
    seconds = network.seconds_in(index)
    flop = math.fsum(one.count_in(index) * _flop(_fastest(one, index), log) for one in solved)
    partly = " for the operators with a successful trial" if network.count_unsolved(index) else ""
    speed = f"{milliseconds(seconds)} ms{partly}" + (f", {flop / seconds / 1e9:.0f} GFLOPS" if flop > 0 else "")
    limits = _limits(index, log, network)
    if not limits:
        why = "how fast this device can be is unknown: tune_network measures it if it is this machine's CPU"
        return Answer(question, f"{speed}; {why}.", _TASKS, known=False)
    share = 1 / (1 + left)
    measured = [one for one in solved if _fastest(one, index).journal_key in log.runs.limits]
    done = [one for one in measured if _is_at_limit(one, index, log, limits)]
    others = [one for one in measured if one not in done]
    memory_bound = sum(_fastest(one, index).journal_key in log.runs.memory_bound for one in done)
    text = f"{speed}, {share:.0%} of what this machine's limits allow"
    if done:
        which = f" ({memory_bound} of them memory-bound)" if memory_bound else ""
        text += f"; {len(done)} of {pluralize(len(solved), 'operator')} "
        reach = "reaches" if len(done) == 1 else "reach"
        text += f"{reach} {_AT_LIMIT:.0%} of the limit{which}: more trials of those are hardly worth it"
    if others:
        most = max(others, key=lambda one: _confirmed_seconds(one, index, log) - limits[one.name])
        share = limits[most.name] / _confirmed_seconds(most, index, log)
        text += f"; most is left in {most.name}, at {share:.0%} of its limit"
    return Answer(question, f"{text}.", _TASKS)


def _is_at_limit(operator: Operator, index: int, log: TuningLog, limits: dict[str, float]) -> bool:
    return limits[operator.name] > _AT_LIMIT * _confirmed_seconds(operator, index, log)


def _confirmed_seconds(operator: Operator, index: int, log: TuningLog) -> float:
    """What an operator takes with its best trial, which may have been a lucky one: as it was confirmed, if that is longer."""
    task, seconds = _fastest(operator, index), operator.seconds_in(index)
    if not is_confirmed(task, log):
        return seconds
    return seconds * max(1.0, float(np.median(log.runs.confirmed[task.journal_key].latencies)) / task.best)


def _flop(task: Task, log: TuningLog) -> float:
    """Operations of a task: none if the journal knows the task but no operations; NaN if it does not."""
    return log.runs.flop.get(task.journal_key, 0.0 if task.journal_key in log.runs.names else math.nan)


def _fastest(operator: Operator, index: int) -> Task:
    return min(operator.tasks_in(index), key=lambda task: task.best)


def _how_sure(index: int, log: TuningLog, network: Network) -> Answer:
    question = "How sure?"
    solved = [one for one in network.operators_in(index) if one.seconds_in(index) < math.inf]
    confirmed = [one for one in solved if is_confirmed(_fastest(one, index), log)]
    chosen = describe_chosen(log.runs.aligned, log.runs.kept_untuned)
    of_network = f" The file of the best has {' and '.join(chosen)}." if chosen else ""
    if not confirmed:
        text = "Every best rests on one trial, maybe a lucky one: "
        text += (
            "the run was too short, or ended too soon, to time it again."
            if log.runs.tuners
            else ("tune_network times the best again at the end of a run.")
        )
        return Answer(question, text + of_network, known=False)
    share = math.fsum(one.seconds_in(index) for one in confirmed) / network.seconds_in(index)
    found = [log.runs.confirmed[_fastest(one, index).journal_key] for one in confirmed]
    noise = np.median([one.spread for one in found])
    text = (
        f"The best of {len(confirmed)} of {pluralize(len(solved), 'operator')}, {share:.0%} of the latency, was timed again in "
        f"turn; timings of the same configuration differ by {noise:.1%}"
    )
    if tied := [one.name for one, confirmation in zip(confirmed, found) if confirmation.ties]:
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


def is_confirmed(task: Task, log: TuningLog) -> bool:
    """Whether a task's best trial was timed again at the end of a run, and no later trial was faster."""
    found = log.runs.confirmed.get(task.journal_key)
    return found is not None and not (task.latencies[task.times > found.time] < np.median(found.latencies)).any()


def _time(index: int, log: TuningLog, network: Network) -> Answer:
    question = "Where did the time go?"
    remarks = [*_phases(log), *_failures(log), *_timeouts(log), *_disproportion(index, log, network)]
    if not remarks:
        return Answer(question, "Unknown: the journal that tune_network writes has it.", known=False)
    return Answer(question, f"{'; '.join(remarks)}.", _OVERVIEW if log.runs.phases else _TASKS)


def _phases(log: TuningLog) -> Iterator[str]:
    phases = sorted(log.runs.phases.items(), key=lambda item: -item[1])
    shown = ", ".join(f"{phase} {format_duration(seconds)}" for phase, seconds in phases if seconds >= 0.5)
    silent = len(log.runs.starts) - log.runs.timed
    if len(log.elapsed) and (silent > 0 or not shown):
        yield f"{format_duration(float(log.elapsed[-1]))} in all"
    if shown:
        told = f"in {log.runs.timed} of {len(log.runs.starts)} runs, as the others did not tell, such as killed ones: {shown}"
        yield told if silent > 0 else shown


def _failures(log: TuningLog) -> Iterator[str]:
    failures: Counter[str] = Counter()
    for task in log.tasks.values():
        failures.update(task.failures)
    count = sum(failures.values())
    if count > _MANY_FAILURES * len(log):
        kind, most = failures.most_common(1)[0]
        yield f"{count / len(log):.0%} of the trials failed, {most} of them with {kind}"


def _timeouts(log: TuningLog) -> Iterator[str]:
    """What trials that timed out cost, and the task that lost most by them."""
    late = [(task, kind) for task in log.tasks.values() for kind in task.failures if "timeout" in kind]
    lost: dict[str, float] = {}
    for task, kind in late:
        lost[task.name] = lost.get(task.name, 0.0) + task.failure_costs.get(kind, 0.0)
    seconds = math.fsum(lost.values())
    if seconds > _MANY_TIMEOUTS * math.fsum(task.cost for task in log.tasks.values()):
        trials = pluralize(sum(task.failures[kind] for task, kind in late), "trial")
        name = max(lost, key=lambda task: lost[task])
        where = "all" if lost[name] == seconds else format_duration(lost[name])
        yield f"{trials} timed out, after {format_duration(seconds)} of building and running in all, {where} of it on {name}"


def _disproportion(index: int, log: TuningLog, network: Network) -> Iterator[str]:
    """The operator that took most time for its share of the latency."""
    if not len(log.elapsed) or log.elapsed[-1] <= 0:
        return
    seconds = network.seconds_in(index)
    for operator in network.operators_in(index):
        if operator.seconds_in(index) == math.inf:
            continue
        time = sum(float(task.elapsed.max()) for task in operator.tasks_in(index)) / float(log.elapsed[-1])
        share = operator.seconds_in(index) / seconds
        if time > _MIN_SHARE and time > _OUT_OF_PROPORTION * share:
            yield f"{operator.name} took {time:.0%} of the time for {share:.0%} of the latency"


def _next(index: int, log: TuningLog, network: Network, expected: Expectation | None, left: float) -> Answer:
    question = "What next?"
    trials = 2 * max(log.runs.budget, len(log))
    if network.count_unsolved(index):
        return _next_for_unsolved(question, index, log, network, trials)
    if log.runs.speedup and is_slower(log.runs.speedup):
        return Answer(
            question,
            "Use the untuned network, which is faster as a whole: trials time each operator alone, in memory of its own.",
        )
    limits = _limits(index, log, network)
    at_limit = bool(limits) and all(_is_at_limit(one, index, log, limits) for one in network.operators_in(index))
    if left < CONVERGED or at_limit or (expected and expected.typical < CONVERGED):
        if log.runs.latency and log.runs.latency[1] >= log.runs.latency[0]:
            return Answer(question, "Nothing: the network as a whole was no faster than untuned, so more trials may not help it.")
        if at_limit:
            return Answer(question, f"Nothing: use the result. Every operator reaches {_AT_LIMIT:.0%} of its limit.", _TASKS)
        return Answer(question, "Nothing: use the result. Another seed, or a larger search space, may find more.")
    if command := continue_command(log.runs.command, trials):
        return Answer(question, "More trials:" if "--trials" in command else "As much time again:", command=command)
    return Answer(question, f"More trials: tune again into this log, with trials={trials}.")


def _next_for_unsolved(question: str, index: int, log: TuningLog, network: Network, trials: int) -> Answer:
    """More time for what always timed out; what else failed has to be looked at."""
    unsolved = [one for one in network.operators_in(index) if one.seconds_in(index) == math.inf]
    failures: Counter[str] = Counter()
    for task in (task for one in unsolved for task in one.tasks_in(index)):
        failures.update(task.failures)
    names = _some([one.name for one in unsolved])
    if not failures:
        return Answer(question, f"See why all trials of {names} failed.", _TASKS)
    kind = failures.most_common(1)[0][0]
    if "timeout" in kind and (command := longer_timeout(log.runs.command, trials)):
        return Answer(question, f"Trials of {names} failed, most often with {kind}. More time for each:", _TASKS, command=command)
    return Answer(question, f"See why all trials of {names} failed, most often with {kind}.", _TASKS)
