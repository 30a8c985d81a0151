"""Records of other tasks as sources of a transfer: of the same template, for other shapes, targets or devices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import Any

from tvm import autotvm
from tvm.autotvm.task import Task

from autotvm_opevo._utils.text import pluralize
from autotvm_opevo.autotvm.log import Record, fitness, parse, workload_key
from autotvm_opevo.autotvm.space import KnobSpace
from autotvm_opevo.search.source import Source

# Of one template, at most this many tasks are looked at, those with the most records.
_MAX_TASKS = 32


class History:
    """Records, by template and task; their search spaces are created when they are needed.

    Parameters
    ----------
    records : iterable of (MeasureInput, MeasureResult)
    """

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self._records: dict[str, dict[Any, list[Record]]] = {}  # by template and task
        self._sources: dict[Any, Source | None] = {}
        self.add(records)

    def add(self, records: Iterable[Record]) -> None:
        """Add records."""
        for measured, result in records:
            key = workload_key(measured.target, measured.task)
            self._records.setdefault(measured.task.name, {}).setdefault(key, []).append((measured, result))
            self._sources.pop(key, None)

    def __str__(self) -> str:
        counts = [len(records) for tasks in self._records.values() for records in tasks.values()]
        return f"{pluralize(sum(counts), 'record')} of {pluralize(len(counts), 'task')}"

    def sources(self, template: str) -> list[Source]:
        """The tasks of a template whose records can be used."""
        tasks = Counter({key: len(records) for key, records in self._records.get(template, {}).items()})
        for key, _ in tasks.most_common(_MAX_TASKS):
            if key not in self._sources:
                self._sources[key] = _source(self._records[template][key])
        return [source for key in tasks if (source := self._sources.get(key)) is not None]


def _source(records: list[Record]) -> Source | None:
    """The results of one task; None if its search space cannot be created here, or none of its trials succeeded."""
    measured = records[0][0]
    try:
        task: Task = autotvm.task.create(measured.task.name, measured.task.args, measured.target)
        knobs = KnobSpace(task.config_space)
    except Exception:  # a template raises what it likes, for arguments or a target that it was not made for
        return None
    results: dict[int, float] = {}
    for one, result in records:
        with suppress(ValueError):  # recorded with another version of the template
            number = knobs.space.index(knobs.configuration(one.config))
            results[number] = max(fitness(result), results.get(number, 0.0))
    return Source(knobs.space, results) if any(results.values()) else None


def read_history(files: Iterable[str | PathLike[str]], log: Path) -> History:
    """Read logs, except for `log`, whose records count as this run's.

    Raises
    ------
    ValueError
        If a file has no AutoTVM record.
    OSError
        If a file cannot be read.
    """
    history = History()
    paths = dict.fromkeys(Path(file).resolve() for file in files)
    for path in paths:
        if path == log.resolve():
            continue
        records = []
        with open(path, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                with suppress(ValueError):
                    record = parse(line.rstrip("\n"))
                    records += [record] if record else []
        if not records:
            raise ValueError(f"history must be logs of AutoTVM, {path} has no record: leave it out, or check its name")
        history.add(records)
    return history
