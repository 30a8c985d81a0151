"""Open logs of tuning runs by their paths, whichever tool wrote them."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

from autotvm_opevo._utils import jsonl
from autotvm_opevo._utils.text import printable
from autotvm_opevo.reporting.autotvm_log import autotvm_trial, with_triples
from autotvm_opevo.reporting.meta_schedule_log import (
    SketchNumbers,
    meta_schedule_trial,
    workload_hashes,
)
from autotvm_opevo.reporting.trials import Task
from autotvm_opevo.reporting.tuning_log import TuningLog
from autotvm_opevo.tuning import run_log
from autotvm_opevo.tuning.logs import (
    BEST_FILE,
    RECORD_FILE,
    WORKLOAD_FILE,
    about,
    identify,
    kind_of_file,
    short_names,
)
from autotvm_opevo.tuning.record_lines import split_records
from autotvm_opevo.tuning.run_log import Network

# Which files of a folder may be AutoTVM logs, what a record has, and how many lines are looked at.
_SUFFIXES, _AUTOTVM, _HEAD = (".json", ".log"), (b'{"', b'"input"', b'"config"', b'"result"'), 100


def open_logs(paths: Sequence[str | os.PathLike[str]]) -> list[TuningLog]:
    """Read AutoTVM logs, folders of MetaSchedule databases, or folders of any of them. Raises
    `ValueError` for what is no log, has no trial, or is given twice.
    """
    if not paths:
        what = "an AutoTVM log, or the folder of a MetaSchedule database"
        raise ValueError(f"logs must be at least one: {what}; none given")
    if not all(isinstance(path, (str, os.PathLike)) for path in paths):
        raise ValueError(f"logs must be paths, one argument each; {paths!r} given")
    files = _expand(paths)
    if len({file.resolve() for file in files}) < len(files):
        names = ", ".join(map(str, files))
        raise ValueError(f"logs must be different files, one of {names} is given twice")
    labels = short_names([file.resolve() if file.name in ("", "..") else file for file in files])
    logs = [TuningLog(printable(label), files[i], i) for i, label in enumerate(labels)]
    sketches: SketchNumbers = {}
    triples = with_triples(_lines(files))
    for log in logs:
        _read(log, sketches, triples)
    if empty := [str(log.path) for log in logs if not len(log)]:
        raise ValueError(f"logs must have trials, there is none in {' and '.join(empty)} yet")
    networks: list[Network] = []
    for log in logs:
        networks += [network for network in log.runs.networks if network not in networks]
    for log in logs:  # one without a run log is probably of the same network
        log.find_operators(log.runs.networks or networks)
    keys = dict.fromkeys(key for log in logs for key in log.tasks)
    _make_names_unique([[log.tasks[key] for log in logs if key in log.tasks] for key in keys])
    return logs


def input_files(paths: Sequence[str | os.PathLike[str]]) -> list[Path]:
    """All files that reading these logs reads, resolved: none may be overwritten by the report."""
    return [file.resolve() for path in _expand(paths) for file in _files(path)]


def _expand(paths: Sequence[str | os.PathLike[str]]) -> list[Path]:
    """Folders of logs are replaced by these, and the files of a database by its folder."""
    files: list[Path] = []
    for path in map(Path, paths):
        if path.name in (RECORD_FILE, WORKLOAD_FILE, run_log.FILE_NAME):
            files.append(path.parent)
        elif path.is_dir() and not (path / RECORD_FILE).exists():
            files += sorted(filter(_is_log, path.iterdir())) or [path]
        else:
            files.append(path)
    return files


def _is_log(path: Path) -> bool:
    """Whether it is a database, or a file that holds trials, and not the best of another log's."""
    if path.is_dir():
        return (path / RECORD_FILE).exists()
    if path.suffix not in _SUFFIXES or path.name.endswith(BEST_FILE) or not path.is_file():
        return False
    with open(path, "rb") as lines:
        return any(all(part in line for part in _AUTOTVM) for line in islice(lines, _HEAD))


def _lines(files: Iterable[Path]) -> Iterator[bytes]:
    """The lines of those that are files."""
    for file in files:
        if file.is_file():
            with open(file, "rb") as lines:
                yield from lines


def _read(log: TuningLog, sketches: SketchNumbers, triples: Mapping[str, str]) -> None:
    """Read the records of a log, and its run log."""
    path, (file, run_log_file, workload_file) = log.path, _files(log.path)
    if path.is_dir() and not file.exists():
        raise ValueError(
            f"{path} must be an AutoTVM log, the folder of a MetaSchedule database, or a folder of "
            f"some; it contains no log NAME.json or NAME.log and no {RECORD_FILE}"
        )
    if file.exists() and not file.is_file():  # a pipe, which is gone once its kind is known
        raise ValueError(f"{path} must be a regular file or a folder: write it to a file first")
    is_database = file.name == RECORD_FILE
    with open(file, "rb") as lines:
        if is_database or kind_of_file(file) == RECORD_FILE:  # under another name
            hashes = workload_hashes(_lines([workload_file] if is_database else []))
            log.read(lines, lambda record: meta_schedule_trial(record, hashes, sketches))
        else:
            log.read(split_records(lines), lambda record: autotvm_trial(record, triples))
    log.merge_run_log(run_log.read(run_log_file))
    # A first line that is still being written is no reason to refuse the file.
    others = log.unrelated + log.malformed
    if not log.tasks and (
        others > jsonl.is_torn(file) or (others and not is_database and identify(file))
    ):
        what = "" if is_database else about(file, "check its name")
        raise ValueError(
            f"{path} must be an AutoTVM log or the folder of a MetaSchedule database, none of "
            f"its lines is a trial{what}"
        )


def _make_names_unique(tasks: Sequence[Sequence[Task]]) -> None:
    """Add targets to the names of tasks that share a name, or numbers where the targets are not
    what differs. Of each task, there is one for each log.
    """
    by_name: defaultdict[str, list[Sequence[Task]]] = defaultdict(list)
    for same in tasks:
        by_name[same[0].name].append(same)
    for name, namesakes in by_name.items():
        by_target = 1 < len(namesakes) == len({same[0].target for same in namesakes})
        for number, same in enumerate(namesakes, start=1):
            suffix = f" for {same[0].target}" if by_target else f" ({number})"
            for task in same:
                task.name = f"{name}{suffix}" if by_target or number > 1 else name


def _files(path: Path) -> tuple[Path, Path, Path]:
    """The file that grows with each trial, the run log beside it, and a database's workloads."""
    records = path / RECORD_FILE if path.is_dir() else path
    return records, run_log.run_log_file(path), records.with_name(WORKLOAD_FILE)
