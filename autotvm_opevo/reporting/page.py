"""A report's page: what the template is given, and nothing that it would have to compute."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from autotvm_opevo._utils.text import milliseconds, pluralize
from autotvm_opevo._version import __version__
from autotvm_opevo.reporting.autotvm_spaces import Template
from autotvm_opevo.reporting.formatting import schedule, setting
from autotvm_opevo.reporting.network import Network, Operator, Run, TaskInLogs
from autotvm_opevo.reporting.pictures import Picture, of_all, of_knobs, of_progress
from autotvm_opevo.reporting.style import FITNESS, FITNESS_ON_DARK, SERIES
from autotvm_opevo.reporting.svg import svg
from autotvm_opevo.reporting.trials import Recording, Task, Value

# How the file ends that `tune_network` writes beside its log.
_BEST_FILE = ".best.json"
# The last quarter of fewer trials is chance.
_ENOUGH = 16
# A log is as good as the best one from there on.
_NEAR = 1.05
# What is said of several logs of a task, and where `_row` has it.
_COMPARED = {
    "best, ms": "best",
    "found at trial": "best_at",
    "trials": "trials",
    f"within {_NEAR - 1:.0%} of the best of all logs at trial": "near_trials",
    "time until then": "near_time",
    "faster by the last quarter of its trials": "gain",
    "failed": "failed",
    "repeated configurations": "repeated",
    "time spent on it": "span",
}


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
    network = Network(recordings)
    return environment.get_template("page.html").render(
        title=title or " and ".join(recording.label for recording in recordings),
        version=__version__,
        made=datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        watch=watch,
        state=state,
        fitness=list(zip(FITNESS, FITNESS_ON_DARK)),
        logs=[_log(number, recording, network) for number, recording in enumerate(recordings)],
        pictures=[_shown(picture) for picture in of_all(network, recordings)],
        counted=network.counted,
        several_runs=any(operator.count_in(log) > 1 for operator in network.operators for log in range(len(recordings))),
        tasks=[
            {**_task(implementation), **_place(network, operator, implementation)}
            for operator in network.operators
            for implementation in operator.implementations
        ],
        compared=_COMPARED,
    )


def _log(number: int, recording: Recording, network: Network) -> dict[str, Any]:
    return {
        "color": f"var(--series-{number % len(SERIES)})",
        "label": recording.label,
        "summary": "; ".join(_summary(number, recording, network)),
        "warnings": list(_warnings(number, recording, network)),
    }


def _summary(number: int, recording: Recording, network: Network) -> Iterator[str]:
    said = f"{pluralize(len(recording), 'trial')} of {pluralize(len(recording.tasks), 'task')}"
    if len(recording.elapsed):
        first = datetime.fromtimestamp(min(float(task.times.min()) for task in recording.tasks.values()), timezone.utc)
        said += f" in {_duration(float(recording.elapsed[-1]))}, the first at {first:%Y-%m-%d %H:%M} UTC"
    yield said
    if recording.runs.tuners:
        yield f"by {', then '.join(recording.runs.tuners)}"
    failed = sum(sum(task.failures.values()) for task in recording.tasks.values())
    if failed:
        yield f"{failed} failed"
    if len(network.operators_in(number)) > 1 and not network.lacking_in(number):
        yield f"all operators take {milliseconds(network.seconds_in(number))} ms"
    if recording.runs.latency:
        before, after = recording.runs.latency
        yield f"the network took {milliseconds(before)} ms before and {milliseconds(after)} ms after"


def _warnings(number: int, recording: Recording, network: Network) -> Iterator[str]:
    if not recording.exists:
        yield "there is nothing to read yet"
    for lines, what in ((recording.malformed, "torn"), (recording.unrelated, "of another kind")):
        if lines:
            yield f"{pluralize(lines, 'line')} {what}, left out"
    lacking = network.lacking_in(number)
    if lacking and recording.tasks:
        have = "operator has" if lacking == 1 else "operators have"
        yield f"{lacking} {have} no trial that works: sums and shares are of the others"
    if any(not len(task.elapsed) for task in recording.tasks.values()):
        yield "it does not say when all trials ended, so nothing is drawn over time"
    if recording.pauses:
        yield f"{pluralize(len(recording.pauses), 'pause')}, {_duration(sum(recording.pauses))} in all, left out of times"
    if recording.label.endswith(_BEST_FILE) and len(recording) == len(recording.tasks):
        yield f"the best trial of each task alone: the whole run is in {recording.label.removesuffix(_BEST_FILE)}.json"


def _place(network: Network, operator: Operator, implementation: TaskInLogs) -> dict[str, Any]:
    """What a task is to the network, in every log that has it."""
    return {
        "counts": [operator.count_in(run.log) for run in implementation.runs],
        "shares": [_share(network, operator, run) for run in implementation.runs],
        "slower": implementation is not operator.implementations[0] and implementation.best < math.inf,
        "others": [
            (other.number, other.any.name, _ms(other.best)) for other in operator.implementations if other is not implementation
        ],
    }


def _share(network: Network, operator: Operator, run: Run) -> str:
    """Of the time of a log's operators, where this is the fastest way to compute one."""
    seconds = operator.count_in(run.log) * run.task.best
    if not seconds <= operator.seconds_in(run.log) < math.inf:
        return ""
    part = seconds / network.seconds_in(run.log)
    return f"{part:.0%}" if part >= 0.005 else "<1%"


def _task(task: TaskInLogs) -> dict[str, Any]:
    name, template = task.any.name, Template(task.any)
    trials = sum(len(run.task) for run in task.runs)
    knobs = list(of_knobs(task, template))
    drawn = {picture.title for picture in knobs}
    fixed = [
        setting(title, template.value(title, Value(knob.kind, next(iter(knob.seen)))))
        for title, knob in task.knobs.items()
        if len(knob.seen) == 1 and knob.trials == trials and title not in drawn
    ]
    tops = [template.value(title, value) for run in task.runs for _, _, top in run.task.top for title, value in top.items()]
    return {
        "number": task.number,
        "works": task.best < math.inf,
        "name": name,
        "target": task.any.target,
        "rows": [_row(run.label, run.task, template, task.best) for run in task.runs],
        "open": any(value.kind == "inner tile" for value in tops),
        "template": template.known,
        "progress": [_shown(picture, name) for picture in of_progress(task)],
        "knobs": [_shown(picture, name) for picture in knobs],
        "fixed": fixed,
    }


def _shown(picture: Picture, of: str = "") -> dict[str, Any]:
    drawing = svg(picture.figure, f"{of}: {picture.title}" if of else picture.title, picture.vertices)
    return {"title": picture.title, "caption": picture.caption, "svg": Markup(drawing)}  # ElementTree has escaped it


def _row(label: str, task: Task, template: Template, best_of_all: float) -> dict[str, Any]:
    elapsed = task.elapsed
    return {
        "label": label,
        "trials": len(task),
        "works": task.best < math.inf,
        "best": _ms(task.best),
        "best_at": task.best_at,
        **_near(task, best_of_all),
        "failed": f"{sum(task.failures.values()) / len(task):.0%}",
        "repeated": task.repeated,
        "span": _duration(float(elapsed.max())) if len(elapsed) and elapsed.max() > 0 else "",
        **_gain(task),
        "failures": [(kind, count, _message(task, kind)) for kind, count in task.failures.most_common()],
        "top": [
            (milliseconds(latency), trial, schedule({name: template.value(name, value) for name, value in knobs.items()}))
            for latency, trial, knobs in task.top
        ],
    }


def _ms(seconds: float) -> str:
    return milliseconds(seconds) if seconds < math.inf else "-"


def _near(task: Task, best_of_all: float) -> dict[str, Any]:
    """How soon a log came near what the best of the logs ever found: the trials, and the time where that is known."""
    near = np.isfinite(task.latencies) & (task.latencies <= _NEAR * best_of_all)
    if not near.any():
        return {"near_trials": "never", "near_time": ""}
    first = int(np.argmax(near))
    return {"near_trials": first + 1, "near_time": _duration(float(task.elapsed[first])) if len(task.elapsed) else ""}


def _gain(task: Task) -> dict[str, str]:
    """What the last quarter of the trials brought."""
    if len(task) < _ENOUGH:
        return {"gain": "-", "gain_words": "too few trials to say what the last ones brought"}
    best_so_far, cut = task.best_so_far, math.ceil(0.75 * len(task))
    before, after = best_so_far[cut - 1], best_so_far[-1]
    if not math.isfinite(before):
        return {"gain": "-", "gain_words": "nothing had worked before the last quarter"}
    return {"gain": f"{before / after - 1:.1%}", "gain_words": "faster by the last quarter of the trials"}


def _message(task: Task, kind: str) -> str:
    messages = task.messages.get(kind)
    return messages.most_common(1)[0][0] if messages else "the log does not say; tune_network keeps that beside it"


def _duration(seconds: float) -> str:
    if seconds < 180:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
