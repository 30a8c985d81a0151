"""Logs of tuning runs, whichever tool wrote them: opened by their paths, with their tasks, runs and
time.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from autotvm_opevo._utils import jsonl
from autotvm_opevo._utils.text import printable
from autotvm_opevo.reporting.autotvm_log import autotvm_trial, split_records, with_triples
from autotvm_opevo.reporting.meta_schedule_log import (
    SketchNumbers,
    meta_schedule_trial,
    workload_hashes,
)
from autotvm_opevo.reporting.trials import Array, Task, Trial
from autotvm_opevo.tuning import journal
from autotvm_opevo.tuning.journal import Event, Runs, TrialEnded
from autotvm_opevo.tuning.logs import (
    BEST_FILE,
    RECORD_FILE,
    WORKLOAD_FILE,
    about,
    identify,
    is_best,
    kind_of_file,
    short_names,
)

# Which files of a folder may be AutoTVM's logs, what the records in their lines have, and how many
# lines are looked at.
_SUFFIXES, _AUTOTVM, _HEAD = (".json", ".log"), (b'{"', b'"input"', b'"config"', b'"result"'), 100
# Longer gaps are pauses: a batch of 64 builds and runs that all time out takes half an hour.
_LONGEST_BATCH = 3600.0
# Shorter pauses are not reported.
_SHORTEST_PAUSE = 60.0


class TuningLog:
    """All tasks of one log.

    Attributes
    ----------
    label : str
        The log's name in the report.
    tasks : dict of str to Task
        In order of their first trials.
    malformed, unrelated : int
        Number of lines that are not JSON, and of those that are but hold no trial. Blank lines and
        comments are not counted.
    runs : Runs
        The runs that wrote the log, according to its journal.
    elapsed : array of float
        Seconds of tuning, without pauses, until the end of each trial, in order of time; empty if
        some timestamps are unknown.
    pauses : list of float
        Duration in seconds of each pause between runs.
    path : Path
        The log file, or the folder of a database.
    exists : bool
        Whether the file exists yet.
    """

    def __init__(self, label: str, path: Path = Path()) -> None:
        self.label, self.path = label, path
        self.tasks: dict[str, Task] = {}
        self.malformed = self.unrelated = 0
        self.runs = Runs()
        self.elapsed: Array = np.empty(0)
        self.pauses: list[float] = []
        self.exists = True
        self._size = 0

    def read(self, lines: Iterable[bytes], parse_trial: Callable[[Any], Trial]) -> None:
        """Add the trial of each line; count the lines that have none."""
        for _, value in jsonl.read(lines):
            if value is jsonl.MALFORMED:
                self.malformed += 1
                continue
            try:
                self.add(parse_trial(value))
            except (
                ArithmeticError,
                AttributeError,
                LookupError,
                RecursionError,
                TypeError,
                ValueError,
            ):
                self.unrelated += 1

    def add(self, trial: Trial) -> None:
        """Add a trial; if one of its values is not hashable, raise before anything is changed."""
        hash(tuple(trial.knobs.values()))
        if trial.task not in self.tasks:
            self.tasks[trial.task] = Task(trial)
        self.tasks[trial.task].add(trial, self._size)
        self._size += 1

    def merge_journal(self, events: Iterable[Event]) -> None:
        """Add what a journal knows of the trials, and compute the time spent on them. Call once,
        after all trials are added.
        """
        events, runs = list(events), self.runs
        runs.replay(events)
        by_task: dict[str, list[TrialEnded]] = {}
        for event in events:
            if isinstance(event, TrialEnded):
                by_task.setdefault(event.task, []).append(event)
        runs.tuners, runs.command = list(map(printable, runs.tuners)), printable(runs.command)
        runs.phases = {printable(phase): seconds for phase, seconds in runs.phases.items()}
        # a key may leave out the target
        targets = Counter(task.journal_key for task in self.tasks.values())
        for task in self.tasks.values():
            task.name = printable(self.runs.names.get(task.journal_key, task.name))
            task.topologies = self.runs.knobs.get(task.journal_key, {})
            confirmation = (
                self.runs.confirmed.get(task.journal_key)
                if targets[task.journal_key] == 1
                else None
            )
            task.merge_journal(
                by_task.get(task.journal_key, ()), confirmation, self.runs.unfinished
            )
        times = [task.times for task in self.tasks.values()]
        per_task, self.elapsed, self.pauses = time_spent(
            times, self.runs.starts, self.runs.measuring_since
        )
        for task, seconds in zip(self.tasks.values(), per_task):
            task.elapsed = seconds

    @property
    def has_best_only(self) -> bool:
        """Whether it holds the best of another log, and is none of a run's own."""
        return is_best(self.path) and not self.runs.starts

    def __len__(self) -> int:
        return self._size


def open_logs(paths: Sequence[str | os.PathLike[str]], must_exist: bool = True) -> list[TuningLog]:
    """Read logs, and label each by its file name, or by as much of its path as makes the labels
    unique.

    Parameters
    ----------
    paths : sequence of str or path
        AutoTVM logs, folders of MetaSchedule databases, or folders of any of them.
    must_exist : bool
        Whether a missing file, and one without a trial, is an error; if not, both are read as empty
        logs.

    Raises
    ------
    ValueError
        If there is no path, a path is given twice, a file is not a log, or it has no trial.
    OSError
        If a file cannot be read.
    """
    if not paths:
        raise ValueError(
            "logs must be at least one: an AutoTVM log, or the folder of a MetaSchedule "
            "database; none given"
        )
    if not all(isinstance(path, (str, os.PathLike)) for path in paths):
        raise ValueError(f"logs must be paths, one argument each; {paths!r} given")
    files = _expand(paths)
    if len({file.resolve() for file in files}) < len(files):
        raise ValueError(
            f"logs must be different files, one of {', '.join(map(str, files))} is given twice"
        )
    sketches: SketchNumbers = {}
    labels = short_names([file.resolve() if file.name in ("", "..") else file for file in files])
    triples = with_triples(_lines(files))
    logs = [
        _open_log(file, label, must_exist, sketches, triples) for file, label in zip(files, labels)
    ]
    if empty := [str(file) for file, log in zip(files, logs) if must_exist and not len(log)]:
        raise ValueError(
            f"logs must have trials, there is none in {' and '.join(empty)} yet: --watch "
            "waits for the first"
        )
    _make_names_unique(logs)
    return logs


def fingerprint(paths: Sequence[str | os.PathLike[str]]) -> str:
    """A string that changes whenever one of the logs or journals does."""
    files = [
        file
        for path in _expand(paths)
        for file in (_records_file(path), _journal_file(path))
        if file.exists()
    ]
    return "-".join(f"{stat.st_size}.{stat.st_mtime_ns}" for stat in map(os.stat, files))


def input_files(paths: Sequence[str | os.PathLike[str]]) -> set[Path]:
    """All files that reading these logs reads, resolved: none may be overwritten by the report."""
    logs = _expand(paths)
    return {
        file.resolve()
        for log in logs
        for file in (
            _records_file(log),
            _journal_file(log),
            _records_file(log).with_name(WORKLOAD_FILE),
        )
    }


def _expand(paths: Sequence[str | os.PathLike[str]]) -> list[Path]:
    """Paths, with the logs of a folder in its place; a folder without any, or with a database,
    stays.
    """
    files = []
    for path in map(Path, paths):
        is_folder_of_logs = path.is_dir() and not (path / RECORD_FILE).exists()
        files += (sorted(filter(_is_log, path.iterdir())) if is_folder_of_logs else []) or [path]
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
    """The lines of files; of folders, and of those that are missing, none."""
    for file in files:
        if file.is_file():
            with open(file, "rb") as lines:
                yield from lines


def _open_log(
    path: Path, label: str, must_exist: bool, sketches: SketchNumbers, triples: Mapping[str, str]
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
                f"{path} must be an AutoTVM log, the folder of a MetaSchedule database, or a "
                f"folder of some; it contains no log NAME.json or NAME.log and no {RECORD_FILE}"
            )
    is_database = file.name == RECORD_FILE
    with open(file, "rb") as lines:
        if is_database or kind_of_file(file) == RECORD_FILE:  # under another name
            workloads = file.with_name(WORKLOAD_FILE)
            known = (
                workloads.read_bytes().splitlines() if is_database and workloads.exists() else []
            )
            hashes = workload_hashes(known)
            log.read(lines, lambda record: meta_schedule_trial(record, hashes, sketches))
        else:
            log.read(split_records(lines), lambda record: autotvm_trial(record, triples))
    log.merge_journal(journal.read(_journal_file(path)))
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
    return log


def _make_names_unique(logs: Sequence[TuningLog]) -> None:
    """Add targets to the names of tasks that share a name, or numbers where the targets are not
    what differs.
    """
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


def time_spent(
    times: Sequence[Array], starts: Sequence[float] = (), ready: Sequence[float] = ()
) -> tuple[list[Array], Array, list[float]]:
    """Time spent tuning, without the pauses between runs, also where tasks take turns.

    A trial takes the time since the previous one, or since measuring began.

    Parameters
    ----------
    times : sequence of array of float
        For each task, the timestamps in seconds at which its trials ended. If any is NaN, the
        result is empty: the unknown trials took an unknown part of the time.
    starts : sequence of float
        Timestamps at which runs started, as far as known. The time between the last trial before a
        start and the start is a pause, however short.
    ready : sequence of float
        Timestamps at which runs began to measure, as far as known. What they took to start counts
        as tuning, but as no task's.

    Returns
    -------
    per_task : list of array of float
        For each task, the seconds spent on it until the end of each of its trials.
    overall : array of float
        Seconds of tuning until the end of each trial, in order of time.
    pauses : list of float
        Duration of each pause in seconds. Pauses of less than a minute are left out.

    Examples
    --------
    >>> per_task, overall, _ = time_spent([np.array([0.0, 10.0, 75.0]), np.array([70.0, 70.0])])
    >>> [seconds.tolist() for seconds in per_task], overall.tolist()
    ([[0.0, 10.0, 15.0], [60.0, 60.0]], [0.0, 10.0, 70.0, 70.0, 75.0])
    >>> times = [np.array([5.0, 8.0, 104.0])]
    >>> (seconds,), _, pauses = time_spent(times, starts=[0.0, 100.0, 500.0])
    >>> seconds.tolist(), pauses
    ([5.0, 8.0, 12.0], [92.0])
    >>> (seconds,), overall, _ = time_spent([np.array([5.0, 8.0])], starts=[0.0], ready=[3.0])
    >>> seconds.tolist(), overall.tolist()
    ([2.0, 5.0], [5.0, 8.0])
    """
    ended = np.concatenate([np.empty(0), *times])
    if not len(ended) or not np.isfinite(ended).all():
        return [np.empty(0) for _ in times], np.empty(0), []
    order = np.argsort(ended, kind="stable")
    now, previous = ended[order], np.concatenate([[-np.inf], ended[order[:-1]]])
    last_start, last_ready = _last(starts, now), _last(ready, now)
    first_of_run = last_start > previous
    gaps = np.where(first_of_run, now - last_start, now - previous)
    paused = np.zeros(len(gaps))
    paused[first_of_run] = last_start[first_of_run] - previous[first_of_run]
    long = ~first_of_run & (gaps > _LONGEST_BATCH)
    paused[long], gaps[long] = gaps[long], 0.0
    durations = np.empty(len(ended))
    starting = first_of_run & (last_ready > last_start)
    gaps_of_tasks = gaps.copy()
    gaps_of_tasks[starting] = now[starting] - last_ready[starting]
    durations[order] = gaps_of_tasks
    ends = np.cumsum([len(task) for task in times])
    per_task = [
        _cumulative(durations[end - len(task) : end], task) for task, end in zip(times, ends)
    ]
    return (
        per_task,
        np.cumsum(gaps),
        [float(pause) for pause in paused[1:] if pause >= _SHORTEST_PAUSE],
    )


def _last(moments: Sequence[float], now: Array) -> Array:
    """The last of some moments before each time; minus infinity if there is none."""
    ordered = np.sort(moments)
    last: Array = np.concatenate([[-np.inf], ordered])[np.searchsorted(ordered, now, side="right")]
    return last


def _cumulative(durations: Array, times: Array) -> Array:
    """Cumulative sum in order of time."""
    order, sums = np.argsort(times, kind="stable"), np.empty(len(times))
    sums[order] = np.cumsum(durations[order])
    return sums
