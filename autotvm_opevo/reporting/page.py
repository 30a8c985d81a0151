"""A report's page: what the template is given, and nothing that it would have to compute."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from autotvm_opevo._version import __version__
from autotvm_opevo.display import counted, milliseconds
from autotvm_opevo.reporting import charts
from autotvm_opevo.reporting.charts import SERIES
from autotvm_opevo.reporting.pictures import Group, Picture, groups, merged, of_all, of_knobs, of_progress
from autotvm_opevo.reporting.templates import Template
from autotvm_opevo.reporting.trials import Recording, Task, Value
from autotvm_opevo.reporting.words import schedule, setting


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
    return environment.get_template("page.html").render(
        title=title or " and ".join(recording.label for recording in recordings),
        version=__version__,
        made=datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        watch=watch,
        state=state,
        logs=[_log(number, recording) for number, recording in enumerate(recordings)],
        pictures=[_shown(picture) for picture in of_all(recordings)],
        tasks=[_task(f"task-{number}", group) for number, group in enumerate(groups(recordings), start=1)],
    )


def _log(number: int, recording: Recording) -> dict[str, Any]:
    failed = sum(sum(task.failures.values()) for task in recording.tasks.values())
    summary = f"{counted(len(recording), 'trial')} of {counted(len(recording.tasks), 'task')}"
    warnings = [f"{counted(lines, 'line')} {what}, left out" for lines, what in _left_out(recording)]
    if any(not len(task.times) for task in recording.tasks.values()):
        warnings.append("it does not say when all trials ended, so nothing is drawn over time")
    if recording.network:
        before, after = recording.network["before"], recording.network["after"]
        summary += f"; the network took {milliseconds(before)} ms before and {milliseconds(after)} ms after"
    return {
        "color": f"var(--series-{number % len(SERIES)})",
        "label": recording.label,
        "summary": summary + (f", {failed} failed" if failed else ""),
        "warnings": warnings,
    }


def _left_out(recording: Recording) -> list[tuple[int, str]]:
    both = ((recording.torn, "torn"), (recording.foreign, "of another kind"))
    return [(lines, what) for lines, what in both if lines]


def _task(anchor: str, group: Group) -> dict[str, Any]:
    name, template = group[0][2].name, Template(group[0][2])
    trials = sum(len(task) for _, _, task in group)
    fixed = [
        setting(title, template.value(title, Value(knob.kind, next(iter(knob.seen)))))
        for title, knob in merged(group).items()
        if len(knob.seen) == 1 and knob.trials == trials
    ]
    return {
        "id": anchor,
        "name": name,
        "target": group[0][2].target,
        "rows": [_row(label, task, template) for _, label, task in group],
        "progress": [_shown(picture, name) for picture in of_progress(group)],
        "knobs": [_shown(picture, name) for picture in of_knobs(group, template)],
        "fixed": fixed,
    }


def _shown(picture: Picture, of: str = "") -> dict[str, Any]:
    svg = charts.svg(picture.figure, f"{of}: {picture.title}" if of else picture.title, picture.vertices)
    return {"title": picture.title, "caption": picture.caption, "svg": Markup(svg)}  # ElementTree has escaped it


def _row(label: str, task: Task, template: Template) -> dict[str, Any]:
    trials = len(task)
    times = task.times
    return {
        "label": label,
        "trials": trials,
        "best": milliseconds(task.best) if task.best < math.inf else "-",
        "best_at": task.best_at,
        "failed": f"{sum(task.failures.values()) / trials:.0%}",
        "repeated": task.repeated,
        "minutes": _duration(float(np.ptp(times))) if len(times) > 1 else "",
        **_gain(task),
        "failures": [(kind, count, _message(task, kind)) for kind, count in task.failures.most_common()],
        "top": [
            (milliseconds(latency), trial, schedule({name: template.value(name, value) for name, value in knobs.items()}))
            for latency, trial, knobs in task.top
        ],
    }


def _gain(task: Task) -> dict[str, str]:
    """What the last quarter of the trials brought: who wonders about another hour has had one like it."""
    if len(task) < 4:
        return {"gain": "-", "gain_words": "too few trials to say what more would bring"}
    best, cut = task.best_so_far, math.ceil(0.75 * len(task))
    before, after = best[max(cut, 1) - 1], best[-1]
    if not math.isfinite(before):
        return {"gain": "-", "gain_words": "nothing had worked before the last quarter"}
    return {"gain": f"{before / after - 1:.1%}", "gain_words": "faster by the last quarter of the trials"}


def _message(task: Task, kind: str) -> str:
    messages = task.messages.get(kind)
    return messages.most_common(1)[0][0] if messages else "the log does not say"


def _duration(seconds: float) -> str:
    if seconds < 180:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
