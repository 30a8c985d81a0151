"""Export of a report's plots as images, and of its data as CSV tables."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from autotvm_opevo.reporting.figures import Plot, save
from autotvm_opevo.reporting.importance import importance
from autotvm_opevo.reporting.knob_graphs import KnobSpaces, format_value
from autotvm_opevo.reporting.knob_plots import importance_plots, knob_plots
from autotvm_opevo.reporting.logs import TuningLog
from autotvm_opevo.reporting.network import Network
from autotvm_opevo.reporting.plots import overview_plots, progress_plots


def save_plots(logs: Sequence[TuningLog], folder: Path) -> None:
    """Save all plots as PNG files, in a folder per task if there are several tasks."""
    network = Network(logs)
    _save(overview_plots(network, logs), folder)
    for task in network.tasks:
        plots = [
            *progress_plots(task),
            *importance_plots(importance(task)),
            *knob_plots(task, KnobSpaces(task)),
        ]
        _save(
            plots,
            folder / f"{task.number:02} {_file_name(task.name)}"
            if len(network.tasks) > 1
            else folder,
        )


def _save(plots: Sequence[Plot], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number, plot in enumerate(plots, start=1):
        save(plot.figure, folder / f"{number:02} {_file_name(plot.title)}.png")


def _file_name(text: str) -> str:
    """Make a name that is valid on any file system.

    >>> _file_name("conv2d <b>/../x</b>")
    'conv2d b x b'
    """
    return " ".join(re.findall(r"[\w-]+", text))[:80] or "plot"


def save_tables(logs: Sequence[TuningLog], folder: Path) -> None:
    """Write ``trials.csv``, a row per trial, and ``knobs.csv``, a row per tried value. Latencies in
    ms, empty for failures.
    """
    folder.mkdir(parents=True, exist_ok=True)
    header = ["log", "task", "trial", "time", "latency_ms", "best_so_far_ms"]
    _write(folder / "trials.csv", header, _trials(logs))
    _write(
        folder / "knobs.csv", ["log", "task", "knob", "value", "trials", "best_ms"], _knobs(logs)
    )


def _trials(logs: Sequence[TuningLog]) -> Iterator[list[Any]]:
    for log in logs:
        for task in log.tasks.values():
            for number, (time, latency, best) in enumerate(
                zip(task.times, task.latencies, task.best_so_far), start=1
            ):
                yield [
                    log.label,
                    task.name,
                    number,
                    _format_number(time),
                    _format_number(latency * 1e3),
                    _format_number(best * 1e3),
                ]


def _knobs(logs: Sequence[TuningLog]) -> Iterator[list[Any]]:
    for log in logs:
        for task in log.tasks.values():
            for name, knob in task.knobs.items():
                for value, stats in knob.stats.items():
                    yield [
                        log.label,
                        task.name,
                        name,
                        format_value(value),
                        stats.trials,
                        _format_number(stats.best * 1e3),
                    ]


def _write(path: Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows([_escape_formula(cell) for cell in row] for row in rows)


def _escape_formula(cell: Any) -> Any:
    """Quote text that a spreadsheet would run as a formula."""
    if not isinstance(cell, str) or cell[:1] not in ("=", "+", "-", "@"):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell


def _format_number(value: float) -> str:
    return repr(float(value)) if math.isfinite(value) else ""
