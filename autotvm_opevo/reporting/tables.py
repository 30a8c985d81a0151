"""What a report draws, as tables for other programs."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from autotvm_opevo.reporting.formatting import in_words
from autotvm_opevo.reporting.trials import Recording


def save(recordings: Sequence[Recording], folder: Path) -> None:
    """``trials.csv``: every trial; ``knobs.csv``: every value that was tried. Milliseconds, empty for failures."""
    folder.mkdir(parents=True, exist_ok=True)
    head = ["log", "task", "trial", "time", "latency_ms", "best_so_far_ms"]
    _write(folder / "trials.csv", head, _trials(recordings))
    _write(folder / "knobs.csv", ["log", "task", "knob", "value", "trials", "best_ms"], _knobs(recordings))


def _trials(recordings: Sequence[Recording]) -> Iterator[list[Any]]:
    for recording in recordings:
        for task in recording.tasks.values():
            for number, (time, latency, best) in enumerate(zip(task.times, task.latencies, task.best_so_far), start=1):
                yield [recording.label, task.name, number, _number(time), _number(latency * 1e3), _number(best * 1e3)]


def _knobs(recordings: Sequence[Recording]) -> Iterator[list[Any]]:
    for recording in recordings:
        for task in recording.tasks.values():
            for name, knob in task.knobs.items():
                for value, seen in knob.seen.items():
                    yield [recording.label, task.name, name, in_words(value), seen.trials, _number(seen.latency * 1e3)]


def _write(path: Path, head: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(head)
        writer.writerows([_plain(cell) for cell in row] for row in rows)


def _plain(cell: Any) -> Any:
    """What a spreadsheet takes for text: a name is no formula."""
    return f"'{cell}" if isinstance(cell, str) and cell[:1] in ("=", "+", "-", "@") and not _is_number(cell) else cell


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _number(value: float) -> str:
    return repr(float(value)) if math.isfinite(value) else ""
