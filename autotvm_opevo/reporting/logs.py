"""Which kind of log a path is, and all of it as trials."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from autotvm_opevo.reporting import autotvm_log, meta_schedule_log
from autotvm_opevo.reporting.formatting import printable
from autotvm_opevo.reporting.trials import Recording, Task
from autotvm_opevo.tuning.journal import JOURNAL, read

_RECORDS, _WORKLOADS = "database_tuning_record.json", "database_workload.json"


def open_logs(paths: Sequence[str | os.PathLike[str]], must_exist: bool = True) -> list[Recording]:
    """All logs, each called by its name, or by as much of its path as tells it from the others.

    Raises
    ------
    ValueError
        If there is no path, one is there twice, or one is of something else.
    OSError
        If one cannot be read.
    """
    if not paths:
        raise ValueError("logs must be at least one: AutoTVM's log, or the folder of a MetaSchedule database; none given")
    if not all(isinstance(path, (str, os.PathLike)) for path in paths):
        raise ValueError(f"logs must be paths, one argument each; {paths!r} given")
    found = [Path(path) for path in paths]
    if len({path.resolve() for path in found}) < len(found):
        raise ValueError(f"logs must be different, one of {', '.join(map(str, found))} is there twice")
    sketches: meta_schedule_log.Sketches = {}
    recordings = [
        _read(path, label, must_exist, sketches)
        for path, label in zip(found, _labels([path.resolve() if path.name in ("", "..") else path for path in found]))
    ]
    _tell_apart(recordings)
    return recordings


def state(paths: Sequence[str | os.PathLike[str]]) -> str:
    """What changes whenever one of the logs does, or its journal."""
    files = [file for path in paths for file in (_file(Path(path)), _journal(Path(path))) if file.exists()]
    return "-".join(f"{stat.st_size}.{stat.st_mtime_ns}" for stat in map(os.stat, files))


def files(paths: Sequence[str | os.PathLike[str]]) -> set[Path]:
    """All that is read, which a report must never be written to."""
    found = [Path(path) for path in paths]
    return {file.resolve() for path in found for file in (_file(path), _journal(path), _file(path).with_name(_WORKLOADS))}


def _read(path: Path, label: str, must_exist: bool, sketches: meta_schedule_log.Sketches) -> Recording:
    recording = Recording(printable(label))
    file = _file(path)
    if not file.exists():
        if not must_exist:
            recording.exists = False
            return recording
        if path.is_dir():
            raise ValueError(f"{path} must be a log of AutoTVM or the folder of a MetaSchedule database, it has no {_RECORDS}")
    with open(file, "rb") as lines:
        if file.name == _RECORDS:
            workloads = file.with_name(_WORKLOADS)
            known = meta_schedule_log.hashes(workloads.read_bytes().splitlines()) if workloads.exists() else []
            meta_schedule_log.read(lines, recording, known, sketches)
        else:
            autotvm_log.read(lines, recording)
    recording.complete(read(_journal(path)))
    if not recording.tasks and recording.unrelated + recording.malformed > _unfinished(file):
        raise ValueError(f"{path} must be a log of AutoTVM or the folder of a MetaSchedule database, no line of it is a trial")
    return recording


def _unfinished(file: Path) -> int:
    """1 if the last line has no end: it may be being written."""
    with open(file, "rb") as content:
        if content.seek(0, os.SEEK_END) == 0:
            return 0
        content.seek(-1, os.SEEK_END)
        return int(content.read() != b"\n")


def _tell_apart(recordings: Sequence[Recording]) -> None:
    """Name the targets of tasks that people would call the same, or number them where that is not the difference."""
    alike: dict[str, dict[str, list[Task]]] = {}
    for recording in recordings:
        for task in recording.tasks.values():
            alike.setdefault(task.name, {}).setdefault(task.key, []).append(task)
    for tasks in alike.values():
        targets = {task.target for same in tasks.values() for task in same}
        for number, same in enumerate(tasks.values(), start=1):
            for task in same:
                if len(targets) == len(tasks) > 1:
                    task.name = f"{task.name} for {task.target}"
                elif number > 1:
                    task.name = f"{task.name} ({number})"


def _file(path: Path) -> Path:
    """The file that grows."""
    return path / _RECORDS if path.is_dir() else path


def _journal(path: Path) -> Path:
    if path.is_dir() or path.name == _RECORDS:
        return _file(path).with_name(JOURNAL)
    return path.with_name(path.name + ".journal")


def _labels(paths: Sequence[Path]) -> list[str]:
    """The last parts of the paths, as many as tell them apart.

    >>> _labels([Path("a/log.json"), Path("b/log.json")]), _labels([Path("a/x.json"), Path("b/y.json")])
    (['a/log.json', 'b/log.json'], ['x.json', 'y.json'])
    """
    for parts in range(1, max(len(path.parts) for path in paths) + 1):
        labels = ["/".join(path.parts[-parts:]) for path in paths]
        if len(set(labels)) == len(labels):
            break
    return labels
