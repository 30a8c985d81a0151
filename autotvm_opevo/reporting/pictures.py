"""Which pictures there are of logs: shown on the page, and saved for those who write papers."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure

from autotvm_opevo._utils.text import milliseconds
from autotvm_opevo.reporting import charts
from autotvm_opevo.reporting.autotvm_spaces import Template
from autotvm_opevo.reporting.knob_graphs import KnobGraph, knob_graph
from autotvm_opevo.reporting.network import Network, TaskInLogs
from autotvm_opevo.reporting.style import RULE, SERIES
from autotvm_opevo.reporting.trials import Recording

# Of a large network, the slowest tasks.
_MOST_BARS = 24


@dataclass(frozen=True)
class Picture:
    """A figure, what it is called, what it says, and what each vertex of a graph is."""

    title: str
    caption: str
    figure: Figure
    vertices: Sequence[str] = ()


def of_all(network: Network, recordings: Sequence[Recording]) -> list[Picture]:
    """Of all tasks together: how all operators became faster, where their time is, and how fast trials came."""
    pictures = []
    counts = "as often as the network runs it" if network.counted else "one run; a network may have more of some"
    if len(network.operators) > 1:
        curves = [(i, recording.label, network.best_so_far(i)) for i, recording in enumerate(recordings)]
        over_trials, over_time = charts.whole(curves), charts.whole(curves, [recording.elapsed for recording in recordings])
        caption = (
            f"All operators together, from the trial on with which each has one that works: each with its best so far, {counts}"
        )
        if any(network.operators_in(i) != network.operators for i in range(len(recordings))):
            caption += ". The logs do not have the same operators"
        if over_trials:
            pictures.append(Picture("all operators over trials", f"{caption}.", over_trials))
        if over_time:
            pictures.append(Picture("all operators over time", "The same over the time of tuning, without pauses.", over_time))
    speed = charts.throughput([(i, recording.label, recording.elapsed) for i, recording in enumerate(recordings)])
    if speed:
        caption = "How fast trials came. Where few did, time went into something else, such as training a model."
        pictures.append(Picture("trials a minute", caption, speed))
    if len(network.operators) > 1:
        pictures += _where(network, recordings, counts)
    return pictures


def _where(network: Network, recordings: Sequence[Recording], counts: str) -> Iterator[Picture]:
    """Where the time of the operators is: before and after in one log, after in each of several."""
    working = [operator for operator in network.operators if operator.seconds < math.inf]
    shown = working[:_MOST_BARS]
    if not shown:
        return
    bars = [
        (recording.label, SERIES[i % len(SERIES)], [_bar(operator.seconds_in(i)) for operator in shown])
        for i, recording in enumerate(recordings)
    ]
    what = "the best trial in each log"
    if len(recordings) == 1:
        (_, color, best), before = bars[0], [_bar(operator.seconds_before(0)) for operator in shown]
        bars, what = [("first trial", RULE, before), ("best", color, best)], "the first trial that worked and the best one"
    some = f"; the {_MOST_BARS} slowest of {len(working)}" if len(working) > _MOST_BARS else ""
    caption = f"Where the time is: of each operator, {what}, {counts}{some}."
    yield Picture("latency of each operator", caption, charts.latencies([operator.name for operator in shown], bars))


def _bar(seconds: float) -> float:
    """Milliseconds; nothing for what does not work."""
    return seconds * 1e3 if seconds < math.inf else 0.0


def of_progress(task: TaskInLogs) -> list[Picture]:
    """Of one task: the best so far."""
    over_trials, over_time = charts.progress(task.runs), charts.progress(task.runs, over_time=True)
    pictures = []
    if over_trials:
        dots = " Each dot is a trial; the slowest may lie above." if len(task.runs) == 1 else ""
        pictures.append(Picture("best so far over trials", f"The best so far over trials.{dots}", over_trials))
    if over_time:
        pictures.append(Picture("best so far over time", "The best so far over the time spent on this task.", over_time))
    return pictures


def of_knobs(task: TaskInLogs, template: Template) -> Iterator[Picture]:
    """Of one task: every knob that has more than one value."""
    if task.best == math.inf:
        return
    for name, knob in task.knobs.items():
        graph = knob_graph(name, *template.knob(name, knob))
        if len(graph.topology) > 1:
            yield Picture(name, _caption(graph), charts.knob(graph, task.best), charts.describe(graph))


def save_pictures(recordings: Sequence[Recording], folder: Path) -> None:
    """All of them as PNG files, a folder for each task where there are several."""
    network = Network(recordings)
    _save(of_all(network, recordings), folder)
    for task in network.tasks:
        pictures = [*of_progress(task), *of_knobs(task, Template(task.any))]
        _save(pictures, folder / f"{task.number:02} {_file_name(task.any.name)}" if len(network.tasks) > 1 else folder)


def _save(pictures: Sequence[Picture], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number, picture in enumerate(pictures, start=1):
        charts.save(picture.figure, folder / f"{number:02} {_file_name(picture.title)}.png")


def _file_name(text: str) -> str:
    """What every file system takes.

    >>> _file_name("conv2d <b>/../x</b>")
    'conv2d b x b'
    """
    return " ".join(re.findall(r"[\w-]+", text))[:80] or "picture"


def _caption(graph: KnobGraph) -> str:
    tried = [value for value in graph.topology if value in graph.seen]
    fastest = sorted(tried, key=lambda value: graph.seen[value].latency)[:3]
    named = ", ".join(f"{graph.meaning(value)} ({milliseconds(graph.seen[value].latency)} ms)" for value in fastest)
    if graph.size == len(graph.topology):
        count = f"{len(tried)} of {graph.size} values tried"
    else:
        of = f" of {graph.size:,}" if graph.size else ""
        count = f"the {len(tried)} values{of} that were tried" + (" and were best" if len(graph.seen) > len(tried) else "")
    return f"{count}; best {named}." if len(tried) > 1 else f"{count}."
