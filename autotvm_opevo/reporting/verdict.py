"""The verdict on a log: is it converged, how good, how sure, where did the time go, what next."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence

import numpy as np

from autotvm_opevo._utils.text import format_duration, milliseconds, pluralize
from autotvm_opevo.reporting.trials import UNKNOWN_FAILURE
from autotvm_opevo.reporting.tuning_log import Operator, TuningLog
from autotvm_opevo.tuning.result import EXHAUSTED, UNLIMITED
from autotvm_opevo.tuning.roofline import MAX_UNKNOWN

# Tuning has converged if the last half of the trials brought less, with at least so many trials for
# each operator; before that, curves of recorded runs often fell again.
_CONVERGED, MIN_TRIALS = 0.01, 64
# Failures that are a larger part of the trials deserve a remark.
_MANY_FAILURES = 0.25
# Number of operators that are named.
_MAX_NAMES = 2
# An operator that reaches more of its bound has little left that is worth a trial.
_AT_BOUND = 0.9
# Bounds that an operator exceeds by more were measured while the machine was slower: they are none.
_MAX_REACHED = 1.5

# The share of its bound that each operator reaches; empty if that is unknown.
Reached = dict[Operator, float]


def verdict(log: TuningLog) -> dict[str, str]:
    """The answers to what one asks after a run, by question; none without trials of its own."""
    if log.has_best_only:
        return {}
    reached = _reached(log)
    converged = _converged(log, reached)
    return {
        "Converged?": converged,
        "How good?": _how_good(log, reached),
        "How sure?": _how_sure(log),
        "Where did the time go?": _time(log),
        "What next?": _next(log, reached, converged.startswith(("Yes", "Probably"))),
    }


def _reached(log: TuningLog) -> Reached:
    """What was not measured, such as moving data, is taken to be at its bound."""
    bounds = {op: log.runs.bounds.get(op.fastest.run_log_key) for op in log.solved}
    unknown = math.fsum(operator.seconds for operator, bound in bounds.items() if not bound)
    reached = {op: bound / op.fastest.latency if bound else 1.0 for op, bound in bounds.items()}
    is_known = unknown <= MAX_UNKNOWN * log.seconds
    return reached if is_known and max(reached.values(), default=0.0) <= _MAX_REACHED else {}


def _share_of_bounds(log: TuningLog, reached: Reached) -> float:
    """What the roofline bounds of all operators together are of their time; 0 if unknown."""
    bounds = math.fsum(operator.seconds * min(share, 1.0) for operator, share in reached.items())
    return bounds / log.seconds if reached else 0.0


def _converged(log: TuningLog, reached: Reached) -> str:
    if log.unsolved:
        return f"No: {pluralize(log.unsolved, 'operator')} without a successful trial."
    if log.runs.stop_reason == EXHAUSTED:
        return "Yes: every task ended: its search space is exhausted, or it stopped early."
    share = _share_of_bounds(log, reached)
    if share and (left := 1 / share - 1) < _CONVERGED:
        return f"Yes: the roofline bounds leave {left:.1%}."
    best = log.best_so_far
    gain = best[max(0, round(len(best) / 2) - 1)] / best[-1] - 1  # infinite without a result before
    brought = f"the last half of the trials brought {gain:.{1 if gain < 0.1 else 0}%}."
    if _CONVERGED <= gain < math.inf:
        return f"No: {brought}"
    # per operator, weighted by latency if that is less: trials of others say little
    trials = [sum(map(len, operator.tasks)) for operator in log.operators]
    weights = [operator.seconds for operator in log.operators]
    if min(np.mean(trials), np.average(trials, weights=weights)) < MIN_TRIALS:
        return f"Too early to tell: fewer than {MIN_TRIALS} trials per operator."
    if gain == math.inf:
        return "Unknown: an operator had its first success in the last half of the trials."
    return f"Probably: {brought}"


def _how_good(log: TuningLog, reached: Reached) -> str:
    if not log.solved:
        return "Unknown: no trial succeeded."
    text = milliseconds(log.seconds) + " ms"
    if log.unsolved:
        text += " for the operators with a successful trial"
    # unknown if the run log does not know a task; what it knows by name only has none
    flop = {**dict.fromkeys(log.runs.names, 0.0), **log.runs.flop}
    flops = math.fsum(
        operator.count * flop.get(operator.fastest.run_log_key, math.nan) for operator in log.solved
    )
    if flops > 0:
        gflops = flops / log.seconds / 1e9
        text += f", {gflops:{'.0f' if gflops >= 10 else '.2g'}} GFLOPS"
    if not reached:
        why = "tune_network measures it if it is this machine's CPU"
        if log.runs.bounds:
            why = "the machine was slower when it was measured, or new operators have come since"
        text += f"; how fast this device can be is unknown: {why}"
        if len(log.solved) > 1:
            slowest = log.solved[:_MAX_NAMES]
            share = math.fsum(operator.seconds for operator in slowest) / log.seconds
            text += f"; {share:.0%} of the time is {_some([op.name for op in slowest])}"
        return f"{text}."
    text += f", {_share_of_bounds(log, reached):.0%} of what the roofline bounds allow"
    others = [operator for operator, share in reached.items() if share <= _AT_BOUND]
    if others and len(reached) > 1:
        most = max(others, key=lambda operator: operator.seconds * (1 - reached[operator]))
        text += f"; most is left in {most.name}, at {reached[most]:.0%} of its bound"
    return f"{text}."


def _how_sure(log: TuningLog) -> str:
    if not log.solved:
        return "Unknown: no trial succeeded."
    confirmed = {op: timings for op in log.solved if (timings := op.fastest.confirmation)}
    if not confirmed:
        return (
            "Every best rests on one trial, maybe a lucky one: tune_network times the best "
            "again if a run is long enough."
        )
    noise = np.median([timings.spread for timings in confirmed.values()])
    text = "Every best was re-measured"
    if len(confirmed) < len(log.solved):
        share = math.fsum(operator.seconds for operator in confirmed) / log.seconds
        operators = f"{len(confirmed)} of {len(log.solved)} operators"
        text = f"{operators}, {share:.0%} of the latency, re-measured"
    text += f"; timings differ by {noise:.1%}"
    if tied := [operator.name for operator, timings in confirmed.items() if timings.ties]:
        text += f"; another configuration may be as fast for {_some(tied)}"
    return f"{text}."


def _some(names: Sequence[str]) -> str:
    """The first names, and the number of others.

    >>> _some(["a", "b"]), _some(["a", "b", "c", "d"])
    ('a and b', 'a, b and 2 others')
    """
    if (others := len(names) - _MAX_NAMES) <= 0:
        return " and ".join(names)
    return f"{', '.join(names[:_MAX_NAMES])} and {pluralize(others, 'other')}"


def _time(log: TuningLog) -> str:
    phases = sorted(log.runs.phases.items(), key=lambda item: -item[1])
    parts = [f"{phase} {format_duration(seconds)}" for phase, seconds in phases if seconds >= 0.5]
    if not (parts and log.has_phases) and log.duration:
        since = "in all" if log.runs.starts else "since the first result"
        parts.append(f"{format_duration(log.duration)} {since}")
    failures = sum((task.failures for task in log.tasks.values()), Counter())
    failed = sum(failures.values())
    if failed > _MANY_FAILURES * len(log):
        kind, most = failures.most_common(1)[0]
        of_them = f", {most} of them" if most < failed else ""
        of_kind = f"{of_them} with {kind}" if kind != UNKNOWN_FAILURE else ""
        parts.append(f"{failed} of {pluralize(len(log), 'trial')} failed{of_kind}")
    return f"{', '.join(parts)}." if parts else "Unknown: the run log of tune_network has it."


def _next(log: TuningLog, reached: Reached, converged: bool) -> str:
    runs = log.runs
    if runs.outputs_differ:
        return (
            "Do not use the records: outputs of the tuned network differ from those of the untuned "
            "one, which the best file has instead."
        )
    if failed := [operator for operator in log.operators if operator.seconds == math.inf]:
        return _next_for_failed(failed)
    if not log.unsolved:
        if runs.speedup and runs.speedup.is_slower:
            return (
                "Nothing: the best file has the untuned network, which is faster as a whole. "
                "Trials time each operator alone, in memory of its own."
            )
        if converged or (reached and min(reached.values()) > _AT_BOUND):
            if runs.latency and runs.latency[1] >= runs.latency[0]:
                return (
                    "Nothing: the network as a whole was no faster than untuned, so more trials "
                    "may not help it."
                )
            return "Nothing: use the result. Another seed, or a larger search space, may find more."
    command, advice = runs.command, "More time: tune again into this log, for as long"
    if runs.stop_reason != "time limit" and runs.budget != UNLIMITED:
        # The trials that count for what the last run tuned; a log may have other networks.
        own = {key for keys in (runs.networks or [{}])[-1] for key in keys}
        made = sum(len(task) for task in log.tasks.values() if not own or task.run_log_key in own)
        trials = runs.budget if made < runs.budget else 2 * made
        if trials != runs.budget:
            command = _with_trials(command, trials)
        advice = f"More trials: tune again into this log, {trials} in all"
    return f"{advice}: {command}" if command else f"{advice}."


def _with_trials(command: str, trials: int) -> str:
    """The command of a run, with another number of trials if it is this package's.

    >>> _with_trials("autotvm-opevo tune --trials 100 --log alexnet.json", 200)
    'autotvm-opevo tune --trials 200 --log alexnet.json'
    >>> _with_trials("autotvm-opevo tune --log dense.json", 200), _with_trials("python x.py", 200)
    ('autotvm-opevo tune --log dense.json --trials 200', 'python x.py')
    """
    if not re.search(r"autotvm[-_]opevo tune ", command):
        return command
    changed, count = re.subn(r"(--trials[ =])\d+", rf"\g<1>{trials}", command)
    return changed if count else f"{command} --trials {trials}"


def _next_for_failed(operators: Sequence[Operator]) -> str:
    """More time for what always timed out; what else failed has to be looked at."""
    tasks = [task for operator in operators for task in operator.tasks]
    (kind, _), *_ = sum((task.failures for task in tasks), Counter()).most_common(1)
    names = _some([operator.fastest.name for operator in operators])
    most = "" if kind == UNKNOWN_FAILURE else f", most often with {kind}"
    if "timeout" in kind:
        why = "give each trial more time (--timeout)"
    else:
        messages = filter(None, (task.message_of(kind) for task in tasks))
        why = next(messages, "the run log of tune_network would say why")
    return f"All trials of {names} failed{most}: {why.removesuffix('.')}."
