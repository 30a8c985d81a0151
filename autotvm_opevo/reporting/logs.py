"""Opening logs: detect the format of each path and read it as a `TuningLog`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

import autotvm_opevo.reporting.autotvm_log as autotvm_log
import autotvm_opevo.reporting.meta_schedule_log as meta_schedule_log
from autotvm_opevo._utils import jsonl
from autotvm_opevo._utils.text import printable
from autotvm_opevo.reporting.trials import Task
from autotvm_opevo.reporting.tuning_log import TuningLog
from autotvm_opevo.tuning import journal
from autotvm_opevo.tuning.file_formats import about, identify, kind_of_file
from autotvm_opevo.tuning.logs import BEST_FILE, RECORD_FILE, WORKLOAD_FILE, short_names

# Which files of a folder may be AutoTVM's logs, what the records in their lines have, and how many lines are looked at.
_SUFFIXES, _AUTOTVM, _HEAD = (".json", ".log"), (b'{"', b'"input"', b'"config"', b'"result"'), 100


def open_logs(paths: Sequence[str | os.PathLike[str]], must_exist: bool = True) -> list[TuningLog]:
    """Read logs, and label each by its file name, or by as much of its path as makes the labels unique.

    Parameters
    ----------
    paths : sequence of str or path
        AutoTVM logs, folders of MetaSchedule databases, or folders of any of them.
    must_exist : bool
        Whether a missing file, and one without a trial, is an error; if not, both are read as empty logs.

    Raises
    ------
    ValueError
        If there is no path, a path is given twice, a file is not a log, or it has no trial.
    OSError
        If a file cannot be read.
    """
    if not paths:
        raise ValueError("logs must be at least one: an AutoTVM log, or the folder of a MetaSchedule database; none given")
    if not all(isinstance(path, (str, os.PathLike)) for path in paths):
        raise ValueError(f"logs must be paths, one argument each; {paths!r} given")
    files = _expand(paths)
    if len({file.resolve() for file in files}) < len(files):
        raise ValueError(f"logs must be different files, one of {', '.join(map(str, files))} is given twice")
    sketches: meta_schedule_log.SketchNumbers = {}
    labels = short_names([file.resolve() if file.name in ("", "..") else file for file in files])
    triples = autotvm_log.with_triples(_lines(files))
    logs = [_open_log(file, label, must_exist, sketches, triples) for file, label in zip(files, labels)]
    if empty := [str(file) for file, log in zip(files, logs) if must_exist and not len(log)]:
        raise ValueError(f"logs must have trials, there is none in {' and '.join(empty)} yet: --watch waits for the first")
    _make_names_unique(logs)
    return logs


def fingerprint(paths: Sequence[str | os.PathLike[str]]) -> str:
    """A string that changes whenever one of the logs or journals does."""
    files = [file for path in _expand(paths) for file in (_records_file(path), _journal_file(path)) if file.exists()]
    return "-".join(f"{stat.st_size}.{stat.st_mtime_ns}" for stat in map(os.stat, files))


def input_files(paths: Sequence[str | os.PathLike[str]]) -> set[Path]:
    """All files that reading these logs reads, resolved: none may be overwritten by the report."""
    logs = _expand(paths)
    return {
        file.resolve()
        for log in logs
        for file in (_records_file(log), _journal_file(log), _records_file(log).with_name(WORKLOAD_FILE))
    }


def _expand(paths: Sequence[str | os.PathLike[str]]) -> list[Path]:
    """Paths, with the logs of a folder in its place; a folder without any, or with a database, stays."""
    files = []
    for path in map(Path, paths):
        is_folder_of_logs = path.is_dir() and not (path / RECORD_FILE).exists()
        files += (sorted(filter(_is_log, path.iterdir())) if is_folder_of_logs else []) or [path]
    return files


def _is_log(path: Path) -> bool:
    return (path / RECORD_FILE).exists() if path.is_dir() else path.suffix in _SUFFIXES and _is_autotvm_log(path)


def _is_autotvm_log(path: Path) -> bool:
    """Whether a file holds trials, and not the best of another log's."""
    if path.name.endswith(BEST_FILE) or not path.is_file():
        return False
    with open(path, "rb") as lines:
        return any(all(part in line for part in _AUTOTVM) for line in islice(lines, _HEAD))


def _lines(files: Iterable[Path]) -> Iterator[bytes]:
    """The lines of files; of folders, and of those that are missing, none."""
    for file in files:
        if file.is_file():
            with open(file, "rb") as lines:
                yield from lines


def _open_log(
    path: Path, label: str, must_exist: bool, sketches: meta_schedule_log.SketchNumbers, triples: Mapping[str, str]
) -> TuningLog:
    path = path.parent if path.name in (RECORD_FILE, WORKLOAD_FILE) else path
    log = TuningLog(printable(label), path)
    file = _records_file(path)
    if not file.exists():
        if not must_exist:
            log.exists = False
            return log
        if path.is_dir():
            raise ValueError(
                f"{path} must be an AutoTVM log, the folder of a MetaSchedule database, or a folder of some; it contains no log "
                f"NAME.json or NAME.log and no {RECORD_FILE}"
            )
    is_database = file.name == RECORD_FILE
    with open(file, "rb") as lines:
        if is_database:
            workloads = file.with_name(WORKLOAD_FILE)
            hashes = meta_schedule_log.workload_hashes(workloads.read_bytes().splitlines()) if workloads.exists() else []
            meta_schedule_log.read(lines, log, hashes, sketches)
        elif kind_of_file(file) == RECORD_FILE:  # under another name
            meta_schedule_log.read(lines, log, [], sketches)
        else:
            autotvm_log.read(lines, log, triples)
    log.merge_journal(journal.read(_journal_file(path)))
    # A first line that is still being written is no reason to refuse the file.
    others = log.unrelated + log.malformed
    if not log.tasks and (others > jsonl.is_torn(file) or (others and not is_database and identify(file))):
        what = "" if is_database else about(file, "check its name")
        raise ValueError(
            f"{path} must be an AutoTVM log or the folder of a MetaSchedule database, none of its lines is a trial{what}"
        )
    return log


def _make_names_unique(logs: Sequence[TuningLog]) -> None:
    """Add targets to the names of tasks that share a name, or numbers where the targets are not what differs."""
    by_name: dict[str, dict[str, list[Task]]] = {}
    for log in logs:
        for task in log.tasks.values():
            by_name.setdefault(task.name, {}).setdefault(task.key, []).append(task)
    for tasks in by_name.values():
        targets = {task.target for same in tasks.values() for task in same}
        for number, same in enumerate(tasks.values(), start=1):
            for task in same:
                if len(targets) == len(tasks) > 1:
                    task.name = f"{task.name} for {task.target}"
                elif number > 1:
                    task.name = f"{task.name} ({number})"


def _records_file(path: Path) -> Path:
    """The file that grows with each trial."""
    return path / RECORD_FILE if path.is_dir() else path


def _journal_file(path: Path) -> Path:
    if path.is_dir() or path.name == RECORD_FILE:
        return _records_file(path).with_name(journal.JOURNAL)
    return path.with_name(path.name + ".journal")
