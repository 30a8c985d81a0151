"""A report's page: what the template is given, and nothing that it would have to compute."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from autotvm_opevo._version import __version__
from autotvm_opevo.display import counted, milliseconds
from autotvm_opevo.reporting import charts
from autotvm_opevo.reporting.charts import FITNESS, FITNESS_ON_DARK, SERIES
from autotvm_opevo.reporting.network import Group, Operator, best, groups, operators
from autotvm_opevo.reporting.pictures import Picture, merged, of_all, of_knobs, of_progress
from autotvm_opevo.reporting.templates import Template
from autotvm_opevo.reporting.trials import Recording, Task, Value
from autotvm_opevo.reporting.words import schedule, setting

# How the file ends that `tune_network` writes beside its log.
_BEST = ".best.json"
# The last quarter of fewer trials is chance.
_FEW = 16
# A log is as good as the best one from there on.
_NEAR = 1.05


def render(recordings: Sequence[Recording], title: str = "", watch: int = 0, state: str = "") -> str:
    """The page as text.

    Parameters
    ----------
    recordings : sequence of Recording
    title : str
        The logs' names unless given.
    watch : int
        Milliseconds after which the page asks whether a log has grown; 0 for a page that asks nothing.
    state : str
        The answer while none has.
    """
    loader = PackageLoader("autotvm_opevo.reporting", ".")
    environment = Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined)
    network = operators(recordings)
    return environment.get_template("page.html").render(
        title=title or " and ".join(recording.label for recording in recordings),
        version=__version__,
        made=datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        watch=watch,
        state=state,
        fitness=list(zip(FITNESS, FITNESS_ON_DARK)),
        logs=[_log(number, recording) for number, recording in enumerate(recordings)],
        pictures=[_shown(picture) for picture in of_all(recordings)],
        weighted=any("operators" in recording.network for recording in recordings),
        several_runs=any(one.runs > 1 for one in network),
        totals=_totals(network, recordings),
        tasks=list(_tasks(network, recordings)),
        near=f"{_NEAR - 1:.0%}",
    )


def _log(number: int, recording: Recording) -> dict[str, Any]:
    failed = sum(sum(task.failures.values()) for task in recording.tasks.values())
    summary = f"{counted(len(recording), 'trial')} of {counted(len(recording.tasks), 'task')}"
    if {"before", "after"} <= set(recording.network):
        before, after = recording.network["before"], recording.network["after"]
        summary += f"; the network took {milliseconds(before)} ms before and {milliseconds(after)} ms after"
    return {
        "color": f"var(--series-{number % len(SERIES)})",
        "label": recording.label,
        "summary": summary + (f", {failed} failed" if failed else ""),
        "warnings": list(_warnings(recording)),
    }


def _warnings(recording: Recording) -> Iterator[str]:
    if not recording.exists:
        yield "there is no such file yet"
    for lines, what in ((recording.torn, "torn"), (recording.foreign, "of another kind")):
        if lines:
            yield f"{counted(lines, 'line')} {what}, left out"
    if any(not len(task.times) for task in recording.tasks.values()):
        yield "it does not say when all trials ended, so nothing is drawn over time"
    if recording.pauses:
        yield f"{counted(len(recording.pauses), 'pause')}, {_duration(sum(recording.pauses))} in all, left out of times"
    if recording.label.endswith(_BEST):
        yield f"the best trial of each task alone: the whole run is in {recording.label.removesuffix(_BEST)}.json"


def _totals(network: Sequence[Operator], recordings: Sequence[Recording]) -> list[tuple[str, str]]:
    """Of each log that has all operators, the milliseconds of them together."""
    sums = [(recording.label, sum(one.seconds_in(log) for one in network)) for log, recording in enumerate(recordings)]
    return [(label, milliseconds(seconds)) for label, seconds in sums if 0 < seconds < math.inf]


def _tasks(network: Sequence[Operator], recordings: Sequence[Recording]) -> Iterator[dict[str, Any]]:
    """All tasks, what takes the most time first. They keep the numbers in which they appeared, which are their addresses."""
    addresses = {group[0][2].key: f"task-{number}" for number, group in enumerate(groups(recordings), start=1)}
    total = sum(one.seconds for one in network if one.seconds < math.inf)
    for operator in network:
        for way in operator.ways:
            key = way[0][2].key
            if key not in addresses:
                continue  # shown with an operator that takes more
            fastest = way is operator.ways[0] and operator.seconds < math.inf
            others = [
                (addresses.get(other[0][2].key, ""), other[0][2].name, _best(best(other)))
                for other in operator.ways
                if other is not way
            ]
            yield {
                **_task(addresses[key], way),
                "runs": operator.runs,
                "share": _share(operator.seconds / total) if fastest else "",
                "others": others,
            }


def _task(address: str, group: Group) -> dict[str, Any]:
    name, template = group[0][2].name, Template(group[0][2])
    trials = sum(len(task) for _, _, task in group)
    knobs = list(of_knobs(group, template))
    drawn = {picture.title for picture in knobs}
    fixed = [
        setting(title, template.value(title, Value(knob.kind, next(iter(knob.seen)))))
        for title, knob in merged(group).items()
        if len(knob.seen) == 1 and knob.trials == trials and title not in drawn
    ]
    rows = [_row(label, task, template, best(group)) for _, label, task in group]
    return {
        "id": address,
        "name": name,
        "target": group[0][2].target,
        "rows": rows,
        "open": any("?x" in line for row in rows for _, _, lines in row["top"] for line in lines),
        "template": template.known,
        "progress": [_shown(picture, name) for picture in of_progress(group)],
        "knobs": [_shown(picture, name) for picture in knobs],
        "fixed": fixed,
    }


def _shown(picture: Picture, of: str = "") -> dict[str, Any]:
    svg = charts.svg(picture.figure, f"{of}: {picture.title}" if of else picture.title, picture.vertices)
    return {"title": picture.title, "caption": picture.caption, "svg": Markup(svg)}  # ElementTree has escaped it


def _row(label: str, task: Task, template: Template, best_of_all: float) -> dict[str, Any]:
    elapsed = task.elapsed
    return {
        "label": label,
        "trials": len(task),
        "works": task.best < math.inf,
        "best": _best(task.best),
        "best_at": task.best_at,
        **_near(task, best_of_all),
        "failed": f"{sum(task.failures.values()) / len(task):.0%}",
        "repeated": task.repeated,
        "span": _duration(float(elapsed.max())) if len(elapsed) > 1 else "",
        **_gain(task),
        "failures": [(kind, count, _message(task, kind)) for kind, count in task.failures.most_common()],
        "top": [
            (milliseconds(latency), trial, schedule({name: template.value(name, value) for name, value in knobs.items()}))
            for latency, trial, knobs in task.top
        ],
    }


def _share(part: float) -> str:
    return f"{part:.0%}" if part >= 0.005 else "<1%"


def _best(seconds: float) -> str:
    return milliseconds(seconds) if seconds < math.inf else "-"


def _near(task: Task, best_of_all: float) -> dict[str, Any]:
    """How soon a log came near what the best of the logs ever found: the trials, and the time where that is known."""
    if not task.best <= _NEAR * best_of_all:
        return {"near_trials": "never", "near_time": ""}
    near = task.latencies <= _NEAR * best_of_all
    elapsed = task.elapsed
    return {
        "near_trials": int(np.argmax(near)) + 1,
        "near_time": _duration(float(elapsed[near].min())) if len(elapsed) else "",
    }


def _gain(task: Task) -> dict[str, str]:
    """What the last quarter of the trials brought, which is what as many more might bring at the best."""
    if len(task) < _FEW:
        return {"gain": "-", "gain_words": "too few trials to say what more would bring"}
    best_so_far, cut = task.best_so_far, math.ceil(0.75 * len(task))
    before, after = best_so_far[cut - 1], best_so_far[-1]
    if not math.isfinite(before):
        return {"gain": "-", "gain_words": "nothing had worked before the last quarter"}
    return {"gain": f"{before / after - 1:.1%}", "gain_words": "faster by the last quarter of the trials"}


def _message(task: Task, kind: str) -> str:
    messages = task.messages.get(kind)
    return messages.most_common(1)[0][0] if messages else "the log does not say"


def _duration(seconds: float) -> str:
    if seconds < 180:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
