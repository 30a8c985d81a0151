"""Which pictures there are of logs: shown on the page, and saved for those who write papers."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure

from autotvm_opevo.display import milliseconds
from autotvm_opevo.reporting import charts
from autotvm_opevo.reporting.knob_graphs import KnobGraph, knob_graph
from autotvm_opevo.reporting.network import Group, best, groups, operators
from autotvm_opevo.reporting.templates import Template
from autotvm_opevo.reporting.trials import Knob, Recording

# Of a large network, the slowest tasks.
_MOST_BARS = 24


@dataclass(frozen=True)
class Picture:
    """A figure, what it is called, what it says, and what each vertex of a graph is."""

    title: str
    caption: str
    figure: Figure
    vertices: Sequence[str] = ()


def of_all(recordings: Sequence[Recording]) -> list[Picture]:
    """Of all tasks together: where the time of the operators is, and how fast trials came."""
    pictures = []
    bars = [
        (f"{one.runs} times {one.best.name}" if one.runs > 1 else one.best.name, one.seconds_before * 1e3, one.seconds * 1e3)
        for one in operators(recordings)
        if one.seconds < math.inf
    ]
    if len(bars) > 1:
        some = f"; the {_MOST_BARS} slowest of {len(bars)}" if len(bars) > _MOST_BARS else ""
        weighted = any("operators" in recording.network for recording in recordings)
        runs = "each as often as the network runs it" if weighted else "one run of each; a network may run some more often"
        caption = f"Where the time is: of each operator, the first trial that worked and the best one; {runs}{some}."
        pictures.append(Picture("latency of each operator", caption, charts.latencies(bars[:_MOST_BARS])))
    speed = charts.throughput([(i, recording.label, recording.elapsed) for i, recording in enumerate(recordings)])
    if speed:
        pictures.append(Picture("trials a minute", "How fast trials came. A gap is time spent on something else.", speed))
    return pictures


def of_progress(group: Group) -> list[Picture]:
    """Of one task: the best so far."""
    over_trials, over_time = charts.progress(group), charts.progress(group, over_time=True)
    pictures = []
    if over_trials:
        slowest = "; the slowest may lie above" if len(group[0][2]) > charts.FEW else ""
        dots = f" Each dot is a trial{slowest}." if len(group) == 1 else ""
        pictures.append(Picture("best so far over trials", f"The best so far over trials.{dots}", over_trials))
    if over_time:
        pictures.append(Picture("best so far over time", "The best so far over the time spent on this task.", over_time))
    return pictures


def of_knobs(group: Group, template: Template) -> Iterator[Picture]:
    """Of one task: every knob that has more than one value."""
    best_of_all = best(group)
    if best_of_all == math.inf:
        return
    for name, knob in merged(group).items():
        graph = knob_graph(name, *template.knob(name, knob))
        if len(graph.topology) > 1:
            yield Picture(name, _caption(graph), charts.knob(graph, best_of_all), charts.describe(graph))


def merged(group: Group) -> Mapping[str, Knob]:
    """What was seen of each knob in all logs together."""
    found: dict[str, Knob] = {}
    for _, _, task in group:
        for name, knob in task.knobs.items():
            into = found.setdefault(name, Knob(knob.kind, knob.options, knob.innermost))
            into.kind = knob.kind if knob.kind == into.kind else "choice"
            for value, seen in knob.seen.items():
                into.add(value, seen.trials, seen.latency)
    return found


def save_pictures(recordings: Sequence[Recording], folder: Path) -> None:
    """All of them as PNG files, a folder for each task where there are several."""
    _save(of_all(recordings), folder)
    tasks = groups(recordings)
    for number, group in enumerate(tasks, start=1):  # as they appear, so that a longer log gives no folder another name
        name = _file_name(group[0][2].name)
        _save(
            [*of_progress(group), *of_knobs(group, Template(group[0][2]))],
            folder / f"{number:02} {name}" if len(tasks) > 1 else folder,
        )


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
