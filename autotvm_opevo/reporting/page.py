"""The page of a report, from the template ``page.html``, and the public function that writes it."""

from __future__ import annotations

import math
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np

try:
    import matplotlib  # noqa: F401  # of the plots
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup
except ModuleNotFoundError as error:
    raise ImportError(f"reports need {error.name}: pip install jinja2 matplotlib") from error

from autotvm_opevo._utils.atomic_files import write_whole
from autotvm_opevo._utils.text import format_duration, milliseconds, pluralize, printable
from autotvm_opevo._version import __version__
from autotvm_opevo.reporting.figures import SERIES, Plot, svg
from autotvm_opevo.reporting.logs import input_files, open_logs
from autotvm_opevo.reporting.plots import overview_plots, progress_plots
from autotvm_opevo.reporting.schedules import describe_value, format_schedule
from autotvm_opevo.reporting.summary import compare_with_first, summary, warnings
from autotvm_opevo.reporting.trials import Task, Value
from autotvm_opevo.reporting.tuning_log import TuningLog
from autotvm_opevo.reporting.verdict import verdict

# Latencies up to this multiple of the best are near it.
_NEAR_BEST = 1.05
# Numbers of best configurations, and of best values of a knob, that are shown.
_TOP, _TOP_VALUES = 5, 3
_NO_MESSAGE = "unknown: the run log that tune_network writes would have it"
# Columns of the table of all tasks, and rows of the table that begins a task: caption, and key in
# `_row`. Without any value, they are left out.
_COLUMNS = {
    "runs": "count",
    "share": "share",
    "best, ms": "best",
    "GFLOPS": "gflops",
    "GB/s": "gbytes",
    "of bound": "bound",
    "lowest at trial": "best_trial",
    "trials": "trials",
    "failed": "failed",
    "time": "time",
}
_FIGURES = {
    "best, ms": "best",
    "lowest at trial": "best_trial",
    "trials": "trials",
    f"within {_NEAR_BEST - 1:.0%} of the best at trial": "near_trial",
    "time until then": "near_time",
    "failed": "failed",
    "repeated configurations": "repeated",
    "time spent on this task": "spent",
    "how sure": "state",
}


def report(*logs: str | os.PathLike[str], out: str | os.PathLike[str], title: str = "") -> Path:
    """Write a report of tuning runs: one self-contained HTML file, for screen and print.

    Parameters
    ----------
    *logs : str or path
        AutoTVM logs, written by any tuner, folders of them, or folders of MetaSchedule databases;
        the runs may still be in progress. They are never modified. Several are overlaid.
    out : str or path
        The HTML file.
    title : str
        Title of the page. Defaults to the names of the logs.

    Returns
    -------
    Path
        The HTML file.

    Raises
    ------
    ValueError
        If a path is not a log or has no trial, or `out` is one of the logs or not a file.
    OSError
        If a log cannot be read or a file cannot be written.
    """
    page = Path(out)
    if not page.parent.is_dir():
        raise FileNotFoundError(f"out must be in an existing folder, {page.parent} does not exist")
    contents = open_logs(logs)
    if page.resolve() in input_files(logs):
        raise ValueError(f"out must not be one of the logs, which are never modified; {page} given")
    if page.exists() and not page.is_file():
        kind = "a folder" if page.is_dir() else "none"
        raise ValueError(f"out must be a regular file, {page} is {kind}")
    write_whole(page, [render(contents, title).encode()])
    return page


def render(logs: Sequence[TuningLog], title: str = "") -> str:
    """Render the page as HTML."""
    tasks = _tasks(logs)
    rows = [row for task in tasks for row in task["rows"]]
    columns = {caption: key for caption, key in _COLUMNS.items() if any(row[key] for row in rows)}
    if all(row["count"] == 1 for row in rows):
        columns.pop("runs", None)
    environment = Environment(
        loader=PackageLoader("autotvm_opevo.reporting", "."),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    return environment.get_template("page.html").render(
        title=printable(title) or ", ".join(log.label for log in logs),
        version=__version__,
        created=datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        logs=[
            {
                "color": _color(log),
                "label": log.label,
                "summary": summary(log),
                "warnings": list(warnings(log)),
                "verdict": verdict(log),
            }
            for log in logs
        ],
        comparisons=list(compare_with_first(logs)),
        plots=[_embed(plot) for plot in overview_plots(logs)],
        has_counts=all(log.has_counts for log in logs),
        tasks=tasks,
        columns=columns,
        figures=_FIGURES,
    )


def _tasks(logs: Sequence[TuningLog]) -> list[dict[str, Any]]:
    """The tasks of all logs, those of the slowest operators first, and of these the fastest."""
    keys = dict.fromkeys(key for log in logs for key in log.tasks)
    numbers = {key: i for i, key in enumerate(keys, 1)}  # of links, which stay while logs grow
    order = dict.fromkeys(keys, (0.0, math.inf))
    for operator in (operator for log in logs for operator in log.operators):
        time = operator.seconds if operator.seconds < math.inf else 0.0
        for task in operator.tasks:
            slowest, fastest = order[task.key]
            order[task.key] = (min(slowest, -time), min(fastest, task.latency))
    extents = {key: loops for log in logs for key, loops in log.runs.extents.items()}
    return [
        _task(numbers[key], key, [log for log in logs if key in log.tasks], extents)
        for key in sorted(keys, key=order.__getitem__)
    ]


def _task(
    number: int,
    key: str,
    logs: Sequence[TuningLog],
    extents_of: Mapping[str, Mapping[str, int]],
) -> dict[str, Any]:
    """What the page shows of a task, given its key, its logs, and the extents of loops by task."""
    tasks = [log.tasks[key] for log in logs]
    known = filter(None, (extents_of.get(task.run_log_key) for task in tasks))
    extents = {printable(knob): extent for knob, extent in next(known, {}).items()}
    name = tasks[0].name
    best = min(task.best for task in tasks)
    rows = [_row(log, log.tasks[key], best, extents) for log in logs]
    knobs = list(_knobs(tasks, extents))
    schedules = [text for row in rows for *_, text in row["top"]]
    return {
        "number": number,
        "name": name,
        "target": tasks[0].target,
        "succeeded": best < math.inf,
        "rows": rows,
        "has_inner_tile": any("?x" in text for text in (*schedules, *(text for *_, text in knobs))),
        "charts": [_embed(plot, name) for plot in progress_plots(key, logs)],
        "knobs": knobs,
    }


def _knobs(tasks: Sequence[Task], extents: Mapping[str, int]) -> Iterator[tuple[str, int, str]]:
    """Of each knob with several values: how many were tried in all logs, and the three best."""
    lowest: defaultdict[str, dict[Value, float]] = defaultdict(dict)
    for trial in (trial for task in tasks for trial in task.trials):
        for name, value in trial.knobs.items():
            lowest[name][value] = min(trial.latency, lowest[name].get(value, math.inf))
    for name, latencies in lowest.items():
        best = sorted(latencies, key=latencies.__getitem__)[:_TOP_VALUES]
        texts = [
            f"{describe_value(name, value, extents.get(name, 0))} "
            f"({milliseconds(latencies[value])} ms)"
            for value in best
            if latencies[value] < math.inf
        ]
        if texts and len(latencies) > 1:
            yield name, len(latencies), ", ".join(texts)


def _row(
    log: TuningLog, task: Task, best_of_all: float, extents: Mapping[str, int]
) -> dict[str, Any]:
    """What the page shows of a task in one log."""
    operator = next(operator for operator in log.operators if task in operator.tasks)
    runs, spent = log.runs, float(task.elapsed[-1]) if len(task.elapsed) else 0.0
    solved, is_fastest = task.best < math.inf, task.latency <= operator.fastest.latency
    of_tasks = runs.flop, runs.sizes, runs.bounds
    flop, size, bound = (solved and known.get(task.run_log_key, 0.0) for known in of_tasks)
    memory = " (memory)" if task.run_log_key in runs.memory_bound else ""
    successes = [(i, trial) for i, trial in enumerate(task.trials, 1) if not trial.failure]
    return {
        "label": log.label,
        "color": _color(log),
        "count": operator.count,
        "share": _percent(operator.seconds / log.seconds) if solved and is_fastest else "",
        "best": milliseconds(task.latency) if solved else "-",
        "gflops": f"{flop / task.latency / 1e9:.1f}" if flop else "",
        "gbytes": f"{size / task.latency / 1e9:.1f}" if size else "",
        "bound": f"{min(1.0, bound / task.latency):.0%}{memory}" if bound else "",
        "best_trial": int(task.latencies.argmin()) + 1 if solved else "",
        "trials": len(task),
        "failed": f"{sum(task.failures.values()) / len(task):.0%}",
        "time": _percent(spent / log.elapsed[-1]) if spent else "",
        "state": _state(task, is_fastest) if solved else "",
        **_near_best(task, best_of_all),
        "repeated": len(task) - len(task.measured),
        "spent": format_duration(spent) if spent else "",
        "failures": [
            (kind, count, task.message_of(kind) or _NO_MESSAGE)
            for kind, count in task.failures.most_common()
        ],
        "top": [
            (milliseconds(trial.latency), number, format_schedule(trial.knobs, extents))
            for number, trial in sorted(successes, key=lambda numbered: numbered[1].latency)[:_TOP]
        ],
    }


def _color(log: TuningLog) -> str:
    return f"var(--series-{log.index % len(SERIES)})"


def _state(task: Task, is_fastest: bool) -> str:
    """Whether the network uses a task, and how sure its best is."""
    certainty = "one trial"
    if best := task.confirmation:
        tied = f", {pluralize(best.ties, 'other')} may be as fast" if best.ties else ""
        certainty = f"re-measured (timings differ by {best.spread:.1%}{tied})"
    return certainty if is_fastest else f"slower implementation, {certainty}"


def _percent(share: float) -> str:
    return f"{share:.0%}" if share >= 0.005 else "<1%"


def _near_best(task: Task, best_of_all: float) -> dict[str, Any]:
    """The first trial that came near the best of all logs, and the time until then, if known."""
    if best_of_all == math.inf:
        return {"near_trial": "", "near_time": ""}
    near = np.flatnonzero(task.latencies <= _NEAR_BEST * best_of_all)
    if not len(near):
        return {"near_trial": "never", "near_time": ""}
    time = format_duration(task.elapsed[near[0]]) if len(task.elapsed) else ""
    return {"near_trial": near[0] + 1, "near_time": time}


def _embed(plot: Plot, task: str = "") -> dict[str, Any]:
    drawing = svg(plot.figure, f"{task}: {plot.title}" if task else plot.title)
    # ElementTree has escaped it
    return {"caption": plot.caption, "svg": Markup(drawing)}
