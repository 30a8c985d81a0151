"""The page of a report, from the template ``page.html``, and the public function that writes it."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Sequence
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
from autotvm_opevo._utils.text import format_duration, milliseconds, pluralize
from autotvm_opevo._version import __version__
from autotvm_opevo.reporting.figures import FITNESS, FITNESS_ON_DARK, SERIES, Plot, svg
from autotvm_opevo.reporting.importance import Importance, importance
from autotvm_opevo.reporting.knob_graphs import KnobSpaces, format_schedule, format_setting
from autotvm_opevo.reporting.knob_plots import importance_plots, knob_plots
from autotvm_opevo.reporting.logs import TuningLog, input_files, open_logs
from autotvm_opevo.reporting.network import Network, Operator, TaskInLog, TaskInLogs
from autotvm_opevo.reporting.plots import overview_plots, progress_plots
from autotvm_opevo.reporting.summary import about_log, compare_with_first
from autotvm_opevo.reporting.trials import UNKNOWN_FAILURE, Task, Value
from autotvm_opevo.reporting.verdict import gain_of_last

# The last half of fewer trials says little.
_MIN_TRIALS_FOR_GAIN = 16
# Latencies up to this multiple of the best are near it.
_NEAR_BEST = 1.05
# Rows of the table that compares a task's logs: caption, and key in `_task_in_log`.
_COMPARISON = {
    "best, ms": "best",
    "found at trial": "best_trial",
    "trials": "trials",
    f"within {_NEAR_BEST - 1:.0%} of the best of all logs at trial": "near_trial",
    "time until then": "near_time",
    "speedup in the last half of trials": "gain",
    "failed": "failed",
    "repeated configurations": "repeated",
    "time spent on this task": "time",
}


def report(
    *logs: str | os.PathLike[str],
    out: str | os.PathLike[str],
    title: str = "",
) -> Path:
    """Write a report of tuning runs: one self-contained HTML file, for screen and print.

    For each task it shows the best latency so far over trials and over time, failures, the best
    configurations, and each knob's graph with the best trial at each vertex. Several logs are
    overlaid, to compare tuners.

    Parameters
    ----------
    *logs : str or path
        AutoTVM logs, written by any tuner, folders of them, or folders of MetaSchedule databases;
        the runs may still be in progress. They are never modified. A knob's graph is complete if
        a journal or the log has all its values; otherwise it has those that were tried.
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

    Examples
    --------
    >>> import json, tempfile
    >>> line = {"input": ["llvm", "dense", [["TENSOR", [1, 8], "float32"]], {}], "version": 0.2,
    ...         "config": {"index": 3, "code_hash": None, "entity": [["tile_x", "sp", [-1, 4]]]},
    ...         "result": [[0.002], 0, 1.5, 1795260407.0]}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     log = Path(folder) / "log.json"
    ...     _ = log.write_text(json.dumps(line))
    ...     page = report(log, out=Path(folder) / "report.html").read_text()
    >>> "dense 1x8" in page
    True
    """
    page = Path(out)
    if not page.parent.is_dir():
        raise FileNotFoundError(f"out must be in an existing folder, {page.parent} does not exist")
    contents = open_logs(logs)
    if page.resolve() in input_files(logs):
        raise ValueError(f"out must not be one of the logs, which are never modified; {page} given")
    if page.exists() and not page.is_file():
        raise ValueError(
            f"out must be a regular file, {page} is {'a folder' if page.is_dir() else 'none'}"
        )
    write_whole(page, [render(contents, title).encode()])
    return page


def render(
    logs: Sequence[TuningLog], title: str = "", poll_ms: int = 0, fingerprint: str = ""
) -> str:
    """Render the page as HTML.

    Parameters
    ----------
    logs : sequence of TuningLog
    title : str
        Defaults to the labels of the logs.
    poll_ms : int
        Interval in milliseconds at which the page checks whether the logs have changed; 0 for a
        static page.
    fingerprint : str
        The answer to that check as long as they have not.
    """
    loader = PackageLoader("autotvm_opevo.reporting", ".")
    environment = Environment(
        loader=loader,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    network = Network(logs)
    return environment.get_template("page.html").render(
        title=title or " and ".join(log.label for log in logs),
        version=__version__,
        created=datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        poll_ms=poll_ms,
        fingerprint=fingerprint,
        fitness=list(zip(FITNESS, FITNESS_ON_DARK)),
        logs=[
            {"color": f"var(--series-{index % len(SERIES)})", **about_log(index, log, network)}
            for index, log in enumerate(logs)
        ],
        comparisons=list(compare_with_first(logs)),
        plots=[_embed(plot) for plot in overview_plots(network, logs)],
        has_counts=network.has_counts,
        show_counts=any(
            operator.count_in(index) > 1
            for operator in network.operators
            for index in range(len(logs))
        ),
        has_times=any(len(log.elapsed) for log in logs),
        has_limits=any(log.runs.limits for log in logs),
        has_flop=any(log.runs.flop for log in logs),
        has_sizes=any(log.runs.sizes for log in logs),
        tasks=[
            {**_task(implementation), **_role(network, operator, implementation, logs)}
            for operator in network.operators
            for implementation in operator.implementations
        ],
        comparison=_COMPARISON,
    )


def _role(
    network: Network, operator: Operator, implementation: TaskInLogs, logs: Sequence[TuningLog]
) -> dict[str, Any]:
    """A task's role in the network, in each log that contains it."""
    return {
        "counts": [operator.count_in(index) for index, _, _ in implementation.in_logs],
        "shares": [_share(network, operator, task) for task in implementation.in_logs],
        "times": [
            _percent(float(task.elapsed.max()) / float(logs[index].elapsed[-1]))
            if len(task.elapsed) and logs[index].elapsed[-1] > 0
            else ""
            for index, _, task in implementation.in_logs
        ],
        "speeds": [_speed(logs[index], task) for index, _, task in implementation.in_logs],
        "states": [
            _state(task, operator.tasks_in(index)) for index, _, task in implementation.in_logs
        ],
        "others": [
            (other.number, other.name, _format_ms(other.latency))
            for other in operator.implementations
            if other is not implementation
        ],
    }


def _speed(log: TuningLog, task: Task) -> dict[str, str]:
    """A task's best in operations and bytes per second, and as a share of the machine's limit, if
    known.
    """
    memory = " (memory)" if task.journal_key in log.runs.memory_bound else ""
    flop, size, limit = (
        known.get(task.journal_key, 0.0)
        for known in (log.runs.flop, log.runs.sizes, log.runs.limits)
    )
    solved = task.latency < math.inf
    return {
        "gflops": f"{flop / task.latency / 1e9:.1f}" if flop and solved else "",
        "gbytes": f"{size / task.latency / 1e9:.1f}" if size and solved else "",
        "limit": f"{min(1.0, limit / task.latency):.0%}{memory}" if limit and solved else "",
    }


def _state(task: Task, implementations: Sequence[Task]) -> str:
    """What is to be said of a task in a log: whether the network uses another, whether its best was
    timed again, how much its timings differ, and whether others may be as fast.
    """
    if task.latency == math.inf:
        return ""
    slower = min(other.latency for other in implementations) < task.latency
    certainty = "one trial"
    if confirmation := task.confirmation:
        ties = confirmation.ties
        tied = f", {pluralize(ties, 'other')} may be as fast" if ties else ""
        certainty = f"confirmed (timings differ by {confirmation.spread:.1%}{tied})"
    return f"slower implementation, {certainty}" if slower else certainty


def _share(network: Network, operator: Operator, task: TaskInLog) -> str:
    """Share of a log's total latency, if the task is the fastest implementation there."""
    seconds = operator.count_in(task.log_index) * task.task.latency
    if not seconds <= operator.seconds_in(task.log_index) < math.inf:
        return ""
    return _percent(seconds / network.seconds_in(task.log_index))


def _percent(share: float) -> str:
    return f"{share:.0%}" if share >= 0.005 else "<1%"


def _task(task: TaskInLogs) -> dict[str, Any]:
    spaces = KnobSpaces(task)
    trials = sum(len(in_log.task) for in_log in task.in_logs)
    knobs = list(knob_plots(task, spaces))
    drawn = {plot.title for plot in knobs}
    constant = [
        format_setting(name, spaces.complete(name, Value(knob.kind, next(iter(knob.stats)))))
        for name, knob in task.knobs.items()
        if len(knob.stats) == 1 and knob.trials == trials and name not in drawn
    ]
    shares = importance(task)
    best = [
        spaces.complete(name, value)
        for in_log in task.in_logs
        for *_, knobs in in_log.task.top
        for name, value in knobs.items()
    ]
    return {
        "number": task.number,
        "succeeded": task.best < math.inf,
        "name": task.name,
        "target": task.example.target,
        "in_logs": [
            _task_in_log(label, in_log, spaces, task.best) for _, label, in_log in task.in_logs
        ],
        "has_inner_tile": any(value.kind == "inner tile" for value in best),
        "spaces_known": spaces.known,
        "progress": [
            _embed(plot, task.name) for plot in [*progress_plots(task), *importance_plots(shares)]
        ],
        "knobs": [_embed(plot, task.name) for plot in knobs],
        "constant": constant,
        "importance_unknown": _importance_unknown(shares),
    }


def _importance_unknown(shares: Importance | None) -> str:
    """Why the trials cannot tell which knobs mattered, if they cannot and are not too few
    anyway.
    """
    if shares is None or shares.is_reliable:
        return ""
    predicted = f"{shares.predicted:.0%} of" if shares.predicted > 0 else "nothing of"
    return (
        "Which knobs mattered cannot be told from these trials: a model of them predicts "
        f"{predicted} the variance of trials that it does not know."
    )


def _embed(plot: Plot, task: str = "") -> dict[str, Any]:
    drawing = svg(plot.figure, f"{task}: {plot.title}" if task else plot.title, plot.tooltips)
    # ElementTree has escaped it
    return {"title": plot.title, "caption": plot.caption, "svg": Markup(drawing)}


def _task_in_log(label: str, task: Task, spaces: KnobSpaces, best_of_all: float) -> dict[str, Any]:
    elapsed = task.elapsed
    return {
        "label": label,
        "trials": len(task),
        "succeeded": task.best < math.inf,
        "best": _format_ms(task.latency),
        "best_trial": task.best_trial,
        **_near_best(task, best_of_all),
        "failed": f"{sum(task.failures.values()) / len(task):.0%}",
        "repeated": task.repeated,
        "time": format_duration(float(elapsed.max())) if len(elapsed) and elapsed.max() > 0 else "",
        **_gain(task),
        "failures": [
            (kind, count, *_failure(task, kind)) for kind, count in task.failures.most_common()
        ],
        "top": [
            (
                milliseconds(latency),
                trial,
                format_schedule(
                    {name: spaces.complete(name, value) for name, value in knobs.items()}
                ),
            )
            for latency, trial, knobs in task.top
        ],
    }


def _format_ms(seconds: float) -> str:
    return milliseconds(seconds) if seconds < math.inf else "-"


def _near_best(task: Task, best_of_all: float) -> dict[str, Any]:
    """The first trial that came near the best latency of all logs, and the time until then, if
    known.
    """
    near = np.isfinite(task.latencies) & (task.latencies <= _NEAR_BEST * best_of_all)
    if not near.any():
        return {"near_trial": "never", "near_time": ""}
    first = int(np.argmax(near))
    return {
        "near_trial": first + 1,
        "near_time": format_duration(float(task.elapsed[first])) if len(task.elapsed) else "",
    }


def _gain(task: Task) -> dict[str, str]:
    """The speedup in the last half of the trials."""
    if len(task) < _MIN_TRIALS_FOR_GAIN:
        return {"gain": "-", "gain_caption": "too few trials to tell whether tuning has converged"}
    gain = gain_of_last(task.best_so_far, 0.5)
    if not math.isfinite(gain):  # NaN if all failed
        return {"gain": "-", "gain_caption": "no successful trial before the last half"}
    return {"gain": f"{gain:.1%}", "gain_caption": "speedup in the last half of trials"}


def _failure(task: Task, kind: str) -> tuple[str, str]:
    """How long a task's failures of a kind took to build and to run, if known, and their most
    common message.
    """
    seconds = task.failure_costs.get(kind, 0.0)
    messages = task.messages.get(kind)
    if kind == UNKNOWN_FAILURE and not messages:
        messages = sum(task.messages.values(), Counter())
    return (
        format_duration(seconds) if seconds > 0 else "",
        messages.most_common(1)[0][0]
        if messages
        else "unknown: the journal that tune_network writes would have it",
    )
