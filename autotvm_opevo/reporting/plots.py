"""Plots of a report: which there are, and their captions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

import autotvm_opevo.reporting.charts as charts
import autotvm_opevo.reporting.knob_charts as knob_charts
from autotvm_opevo._utils.text import milliseconds, pluralize
from autotvm_opevo.reporting.fanova import MIN_PAIR, Importance
from autotvm_opevo.reporting.knob_graphs import KnobGraph, knob_graph
from autotvm_opevo.reporting.knob_spaces import KnobSpaces
from autotvm_opevo.reporting.logs import TuningLog
from autotvm_opevo.reporting.network import Network, TaskInLogs
from autotvm_opevo.reporting.style import RULE, SERIES
from autotvm_opevo.reporting.summary import compare
from autotvm_opevo.reporting.trials import Task

# Of a larger network, only the slowest operators are shown, and none with a smaller share of the latency.
_MAX_BARS, _MIN_SHARE = 24, 0.005
_BANDS = "Bands reach to where a curve would be if the machine had been as fast as for the first log"


@dataclass(frozen=True)
class Plot:
    """A figure with title and caption; for a knob's graph, with a tooltip for each vertex, by index."""

    title: str
    caption: str
    figure: Figure
    tooltips: Sequence[str] = ()


def overview_plots(network: Network, logs: Sequence[TuningLog], slowdown: Mapping[int, float]) -> list[Plot]:
    """Plots of all tasks together, with the bands of `slowdowns`: total latency, throughput, and latency of each operator."""
    plots = []
    weighting = (
        "weighted by the number of runs in the network" if network.has_counts else "one run of each, as some counts are unknown"
    )
    if len(network.operators) > 1:
        curves = [(i, log.label, network.best_so_far(i)) for i, log in enumerate(logs)]
        over_trials = charts.network_progress(curves, slowdown=slowdown)
        over_time = charts.network_progress(curves, [log.elapsed for log in logs], slowdown)
        caption = f"Total latency of all operators with their best configurations so far, {weighting}"
        if any(network.operators_in(i) != network.operators for i in range(len(logs))):
            caption += ". The logs do not have the same operators"
        if slowdown:
            caption += f". {_BANDS}"
        if over_trials:
            plots.append(Plot("total latency over trials", f"{caption}.", over_trials))
        if over_time:
            plots.append(Plot("total latency over time", "The same over tuning time, without pauses.", over_time))
    throughput = charts.throughput([(i, log.label, log.elapsed) for i, log in enumerate(logs)])
    if throughput:
        caption = "Trials per minute. Where there are few, builds or runs took long or timed out, or the tuner was busy."
        plots.append(Plot("trials per minute", caption, throughput))
    plots += _machine(logs)
    if len(network.operators) > 1:
        plots += _operator_latencies(network, logs, weighting)
    return plots


def _machine(logs: Sequence[TuningLog]) -> Iterator[Plot]:
    """What only journals know: where the time went, and whether the machine's speed changed."""
    phases = [(log.label, dict(sorted(log.runs.phases.items(), key=lambda item: -item[1]))) for log in logs if log.runs.phases]
    if phases:
        caption = "Where the time went."
        if any("building" in seconds for _, seconds in phases):
            caption += " Building is waiting for builds, and all that has no other name."
        yield Plot("where the time went", caption, charts.phases(phases))
    timed = [(i, log.label, log.runs.yardstick) for i, log in enumerate(logs) if len(log.runs.yardstick) > 1]
    if timed:
        caption = "The machine's speed: how long a kernel that stays the same took, relative to its median."
        yield Plot("speed of the machine", caption, charts.drift(timed))


def _operator_latencies(network: Network, logs: Sequence[TuningLog], weighting: str) -> Iterator[Plot]:
    """Latency of each operator: first and best trial if there is one log, else the best trial in each log."""
    solved = [operator for operator in network.operators if operator.seconds < math.inf]
    if not solved:
        return
    least = _MIN_SHARE * math.fsum(operator.seconds for operator in solved)
    shown = ([operator for operator in solved if operator.seconds >= least] or solved)[:_MAX_BARS]
    series = [
        (log.label, SERIES[i % len(SERIES)], [_bar(operator.seconds_in(i)) for operator in shown]) for i, log in enumerate(logs)
    ]
    trials = "best trial in each log"
    if len(logs) == 1:
        (_, color, best), first = series[0], [_bar(operator.first_seconds_in(0)) for operator in shown]
        series, trials = [("first trial", RULE, first), ("best trial", color, best)], "first successful trial and best trial"
    subset = f"; the {len(shown)} slowest of {len(solved)}" if len(solved) > len(shown) else ""
    caption = f"Latency of each operator, {weighting}: {trials}{subset}."
    yield Plot("latency of each operator", caption, charts.operator_latencies([operator.name for operator in shown], series))


def _bar(seconds: float) -> float:
    """Milliseconds; 0 if all trials failed."""
    return seconds * 1e3 if seconds < math.inf else 0.0


def slowdowns(logs: Sequence[TuningLog]) -> dict[int, float]:
    """How many times as long the same took as for the first log, by the index of each log for which it differs."""
    return {i: found.ratio for i, log in enumerate(logs) if (found := compare(log, logs[0])).differs}


def progress_plots(task: TaskInLogs, slowdown: Mapping[int, float]) -> list[Plot]:
    """Plots of a task's best latency so far, with the bands of `slowdowns`."""
    over_trials = charts.task_progress(task.in_logs, slowdown=slowdown)
    over_time = charts.task_progress(task.in_logs, over_time=True, slowdown=slowdown)
    plots = []
    if over_trials:
        caption = "Best latency so far over trials."
        if len(task.in_logs) == 1:
            beyond = _count_above(over_trials, task.in_logs[0].task)
            caption += " Each dot is a trial" + (f"; {pluralize(beyond, 'slower one')} off the chart." if beyond else ".")
        if any(index in slowdown for index, _, _ in task.in_logs):
            caption += f" {_BANDS}."
        plots.append(Plot("best so far over trials", caption, over_trials))
    if over_time:
        plots.append(Plot("best so far over time", "The same over the time spent on this task.", over_time))
    return plots


def _count_above(figure: Figure, task: Task) -> int:
    """Number of successful trials that are above the chart."""
    latencies = task.latencies
    _, highest = figure.axes[0].get_ylim()
    return int((latencies[np.isfinite(latencies)] * 1e3 > highest).sum())


def importance_plots(found: Importance | None) -> list[Plot]:
    """Which of a task's knobs mattered, if its trials can tell."""
    if found is None or not found.is_reliable:
        return []
    pairs = (
        "Below, what two explain together beyond that."
        if found.interactions
        else f"No two together explain {MIN_PAIR:.0%} more, as far as these trials can tell."
    )
    caption = (
        f"Which knobs mattered: what each explains of the variance of the log latency by itself. {pairs} The model predicts "
        f"{found.predicted:.0%} of the variance of trials that it does not know. q is the correlation of neighbouring values: "
        "near 1, a step changes little."
    )
    return [Plot("importance of each knob", caption, knob_charts.importance(found))]


def knob_plots(task: TaskInLogs, spaces: KnobSpaces) -> Iterator[Plot]:
    """The graph of each of a task's knobs that has more than one value."""
    if task.best == math.inf:
        return
    for name, knob in task.knobs.items():
        graph = knob_graph(name, *spaces.complete_knob(name, knob))
        if len(graph.topology) > 1:
            yield Plot(name, _knob_caption(graph), knob_charts.knob(graph, task.best), knob_charts.tooltips(graph))


def _knob_caption(graph: KnobGraph) -> str:
    tried = [value for value in graph.topology if value in graph.stats]
    succeeded = [value for value in tried if graph.stats[value].best < math.inf]
    fastest = sorted(succeeded, key=lambda value: graph.stats[value].best)[:3]
    best = ", ".join(f"{graph.describe(value)} ({milliseconds(graph.stats[value].best)} ms)" for value in fastest)
    if graph.size == len(graph.topology):
        count = f"{len(tried)} of {graph.size} values tried"
    else:
        best_of = f"best of {len(graph.stats)} " if len(graph.stats) > len(tried) else ""
        total = f", out of {graph.size:,}" if graph.size else ""
        count = f"the {len(tried)} {best_of}values that were tried{total}"
    return f"{count}; best: {best}." if len(tried) > 1 else f"{count}."
