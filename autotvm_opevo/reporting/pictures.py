"""Which pictures there are of logs: shown on the page, and saved for those who write papers."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from autotvm_opevo.display import milliseconds
from autotvm_opevo.reporting import charts
from autotvm_opevo.reporting.knob_graphs import KnobGraph, knob_graph
from autotvm_opevo.reporting.templates import Template
from autotvm_opevo.reporting.trials import Knob, Recording, Task
from autotvm_opevo.reporting.words import in_words

# The same task in several logs, each with the log's number and label.
Group = list[tuple[int, str, Task]]

# Of a large network, the slowest tasks.
_MOST_BARS = 24


@dataclass(frozen=True)
class Picture:
    """A figure, what it is called, what it says, and what each vertex of a graph is."""

    title: str
    caption: str
    figure: Figure
    vertices: Sequence[str] = ()


def groups(recordings: Sequence[Recording]) -> list[Group]:
    """Tasks, each with its trials in every log, in the order in which tasks appear."""
    found: dict[str, Group] = {}
    for number, recording in enumerate(recordings):
        for key, task in recording.tasks.items():
            found.setdefault(key, []).append((number, recording.label, task))
    return list(found.values())


def of_all(recordings: Sequence[Recording]) -> list[Picture]:
    """Of all tasks together: where the time of the operators is, and how fast trials came."""
    pictures = []
    bars = sorted(_bars(recordings), key=lambda bar: -bar[2])
    if len(bars) > 1:
        some = f"; the {_MOST_BARS} slowest of {len(bars)}" if len(bars) > _MOST_BARS else ""
        weighted = any(recording.network for recording in recordings)
        runs = "each as often as the network runs it" if weighted else "one run of each; a network may run some more often"
        caption = f"Where the time is: the first trial of each operator that worked beside the best, {runs}{some}."
        pictures.append(Picture("latency of each operator", caption, charts.latencies(bars[:_MOST_BARS])))
    times = [np.concatenate([np.empty(0), *(task.times for task in recording.tasks.values())]) for recording in recordings]
    speed = charts.throughput([(i, recording.label, t) for i, (recording, t) in enumerate(zip(recordings, times))])
    if speed:
        pictures.append(Picture("trials a minute", "How fast trials came. A gap is time spent on something else.", speed))
    return pictures


def of_progress(group: Group) -> list[Picture]:
    """Of one task: the best so far."""
    over_trials, over_time = charts.progress(group), charts.progress(group, over_time=True)
    pictures = []
    if over_trials:
        dots = " Each dot is a trial; the slowest may lie above." if len(group) == 1 else ""
        pictures.append(Picture("best so far over trials", f"The best so far over trials.{dots}", over_trials))
    if over_time:
        pictures.append(Picture("best so far over time", "The best so far over time.", over_time))
    return pictures


def of_knobs(group: Group, template: Template) -> Iterator[Picture]:
    """Of one task: every knob that has more than one value."""
    best = min(task.best for _, _, task in group)
    if best == math.inf:
        return
    for name, knob in merged(group).items():
        graph = knob_graph(name, *template.knob(name, knob))
        if len(graph.topology) > 1:
            yield Picture(name, _caption(graph), charts.knob(graph, best), charts.describe(graph))


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
    for number, group in enumerate(tasks, start=1):
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


def _bars(recordings: Sequence[Recording]) -> Iterator[tuple[str, float, float]]:
    """Of each operator its name, and the milliseconds of the first trial that worked and of the best, in whichever log."""
    tasks: dict[str, list[Task]] = {}
    for group in groups(recordings):
        tasks.setdefault(group[0][2].in_journal, []).extend(task for _, _, task in group)
    operators = dict.fromkeys(
        (count, tuple(names)) for recording in recordings for count, names in recording.network.get("operators", ())
    )
    named = {name for _, names in operators for name in names}
    for count, names in [*operators, *((1, (name,)) for name in tasks if name not in named)]:
        worked = [task for name in names for task in tasks.get(name, ()) if task.best < math.inf]
        if worked:
            best = min(worked, key=lambda task: task.best)
            first = best.latencies[np.isfinite(best.latencies)][0]
            name = f"{count} times {best.name}" if count > 1 else best.name
            yield name, count * float(first) * 1e3, count * best.best * 1e3


def _caption(graph: KnobGraph) -> str:
    tried = [value for value in graph.topology if value in graph.seen]
    best = sorted(tried, key=lambda value: graph.seen[value].latency)[:3]
    named = ", ".join(f"{in_words(value)} ({milliseconds(graph.seen[value].latency)} ms)" for value in best)
    if graph.size == len(graph.topology):
        count = f"{len(tried)} of {graph.size} values tried"
    else:
        of = f" of {graph.size:,}" if graph.size else ""
        count = f"the {len(tried)} values{of} that were tried" + (" and were best" if len(graph.seen) > len(tried) else "")
    return f"{count}; best {named}." if len(tried) > 1 else f"{count}."
