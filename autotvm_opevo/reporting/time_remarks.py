"""Where the time of tuning went, in words."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

from autotvm_opevo._utils.text import pluralize
from autotvm_opevo.reporting.formatting import format_duration
from autotvm_opevo.reporting.network import Network
from autotvm_opevo.reporting.trials import UNKNOWN_FAILURE
from autotvm_opevo.reporting.tuning_log import TuningLog

# Failures that are a larger part of the trials deserve a remark.
_MANY_FAILURES = 0.25
# So do timeouts that cost a larger part of what building and running all trials cost, side by side or not.
_MANY_TIMEOUTS = 0.1
# Operators whose share of the time is this many times their share of the latency, and above the minimum, deserve one, too.
_OUT_OF_PROPORTION, _MIN_SHARE = 2.0, 0.25


def time_remarks(index: int, log: TuningLog, network: Network) -> Iterator[str]:
    """The phases of tuning, failures and timeouts if they are many, and the kind of operators that took too much.

    Parameters
    ----------
    index : int
        Of the log, among those of the network.
    log : TuningLog
    network : Network
    """
    yield from _phases(log)
    yield from _failures(log)
    yield from _timeouts(log)
    yield from _disproportion(index, log, network)


def _phases(log: TuningLog) -> Iterator[str]:
    phases = sorted(log.runs.phases.items(), key=lambda item: -item[1])
    shown = ", ".join(f"{phase} {format_duration(seconds)}" for phase, seconds in phases if seconds >= 0.5)
    silent = len(log.runs.starts) - log.runs.timed
    if len(log.elapsed) and log.elapsed[-1] > 0 and (silent > 0 or not shown):
        yield f"{format_duration(float(log.elapsed[-1]))} {'in all' if log.runs.starts else 'since the first result'}"
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
        of_kind = "" if kind == UNKNOWN_FAILURE else f", {most} of them with {kind}"
        yield f"{count / len(log):.0%} of the trials failed{of_kind}"


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
    """The kinds of operators that took much more time than their share of the latency."""
    if not len(log.elapsed) or log.elapsed[-1] <= 0:
        return
    seconds = network.seconds_in(index)
    for kind, operators in network.solved_by_kind(index).items():
        tasks = (task for operator in operators for task in operator.tasks_in(index))
        time = sum(float(task.elapsed.max()) for task in tasks) / float(log.elapsed[-1])
        share = sum(operator.seconds_in(index) for operator in operators) / seconds
        if time > _MIN_SHARE and time > _OUT_OF_PROPORTION * share:
            name = operators[0].name if len(operators) == 1 else f"{kind}, {len(operators)} operators,"
            yield f"{name} took {time:.0%} of the time for {share:.0%} of the latency"
