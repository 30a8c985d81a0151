"""The trials of a work directory, and the best of them in a database of their own."""

from __future__ import annotations

import shutil
import tempfile
from collections import defaultdict
from collections.abc import Container, Sequence
from contextlib import suppress
from itertools import islice
from math import inf
from os import PathLike
from pathlib import Path
from typing import Any

from tvm.s_tir.meta_schedule.database import JSONDatabase, TuningRecord, Workload
from tvm.s_tir.meta_schedule.search_strategy import MeasureCandidate

from autotvm_opevo._utils import jsonl
from autotvm_opevo.meta_schedule.database import commit, load_database, repair, workload_key
from autotvm_opevo.meta_schedule.measurer import Trial
from autotvm_opevo.tuning.logs import BEST_DATABASE, RECORD_FILE, WORKLOAD_FILE
from autotvm_opevo.tuning.record_lines import FAILED, recorded_mean, seconds
from autotvm_opevo.tuning.run_log import RunLog, TrialEnded, run_log_file

# A task of any network: the structural hash of its workload, and its target.
_Task = tuple[str, str]

# Of the best: the files with the number of records that the work directory had, the networks that
# are better untuned, and those that were verified; and what follows the folder's name while it is
# replaced.
_TRIALS, _UNTUNED, _VERIFIED, _ASIDE = "trials", "untuned.json", "verified.json", ".old"


class TrialStore:
    """See `tuning.task_state.TrialStore`; the trials are of any networks and targets. The caller
    must hold the work directory's lock.

    Of the trials that were known when the best of a task was timed again, or when the last call
    ended, that one stays the best; a later one can be faster. A database has no timestamps, and TVM
    sorts its records by latency: what is later is known by the lines of its file, which are in
    order.

    The folder is repaired if a call was killed.

    Attributes
    ----------
    database : JSONDatabase
        One record a trial.
    untuned : set of tuple of str
        The networks that are better untuned, by their keys; see `tasks.key_of`.
    verified : dict of tuple of str to bool
        Of the networks that were verified, whether `lower` keeps their outputs.
    """

    def __init__(self, folder: Path) -> None:
        repair(folder)
        self.path, self.database = folder, load_database(folder)
        self.run_log = RunLog(run_log_file(folder), overwrite=not len(self.database))
        self.untuned: set[tuple[str, ...]] = set()
        self.verified: dict[tuple[str, ...], bool] = {}
        self._keys: dict[Workload, str] = {}
        self._workloads: dict[str, Workload] = {}  # by key, those that are written
        self._records: defaultdict[_Task, list[TuningRecord]] = defaultdict(list)
        self._best: dict[_Task, TuningRecord] = {}
        for record in self.database.get_all_tuning_records():
            self._records[self._task_of(record)].append(record)
            self._compare(record)
        self._size = (folder / RECORD_FILE).stat().st_size
        best, aside = folder / BEST_DATABASE, folder / f"{BEST_DATABASE}{_ASIDE}"
        if aside.exists() and not best.exists():  # a call was killed while it replaced it
            aside.rename(best)
        if len(self.database) and best.exists():
            self._load_best(best)

    def _load_best(self, best: Path) -> None:
        repair(best)
        for record in load_database(best).get_all_tuning_records():
            task = self._task_of(record)
            if seconds(record.run_secs) < inf or task not in self._records:
                self._best[task] = record  # but what was not measured gives way to any trial
        self.untuned, self.verified = untuned_networks(best), verified_networks(best)
        known = 0
        with suppress(OSError, ValueError):  # of an earlier version, or torn
            known = int((best / _TRIALS).read_text())
        with open(self.path / RECORD_FILE, "rb") as lines:
            later = list(islice(lines, known, None))
        if not later:
            return
        # only TVM can read them, and only from a file
        with tempfile.TemporaryDirectory() as temporary:
            shutil.copy(self.path / WORKLOAD_FILE, temporary)
            (Path(temporary) / RECORD_FILE).write_bytes(b"".join(later))
            for record in load_database(Path(temporary)).get_all_tuning_records():
                self._compare(record)

    def records(self, task: Any) -> list[TuningRecord]:
        """The trials of a `TaskState`, the fastest first."""
        records = self._records[task.key, str(task.target)]
        return sorted(records, key=lambda record: recorded_mean(record.run_secs))

    def others(self, network: Sequence[str]) -> list[TuningRecord]:
        """The trials of other networks than that of a key, and for other targets."""
        target, *keys = network
        own = {(key, target) for key in keys}
        return [r for task, records in self._records.items() if task not in own for r in records]

    def other_targets(self, task: Any) -> set[str]:
        """The other targets for which there are trials of a `TaskState`'s workload."""
        return {target for key, target in self._records if key == task.key} - {str(task.target)}

    def record(self, task: Any, candidate: MeasureCandidate, run_secs: Any) -> TuningRecord:
        """A record of a `TaskState`, which is not written, but the line of its workload is if that
        is new. Without it, TVM would lose all records of the task when it reads them.
        """
        if task.key not in self._workloads:
            file = self.path / WORKLOAD_FILE
            is_new, before = not self.database.has_workload(task.mod), file.stat().st_size
            workload = self.database.commit_workload(task.mod)
            if (is_new and file.stat().st_size == before) or jsonl.is_torn(file):
                raise self._full_disk()
            self._workloads[task.key] = workload
        workload, trace = self._workloads[task.key], candidate.sch.trace
        return TuningRecord(trace, workload, run_secs, task.target, candidate.args_info)

    def _full_disk(self) -> OSError:
        return OSError(
            f"{self.path} does not have the last trials: make room on its disk; the same call then "
            "resumes"
        )

    def append(self, task: Any, trial: Trial) -> None:
        """Write a trial of a `TaskState`, and to the run log its end and its error, which the
        database lacks; an `OSError` if the disk is full, which TVM does not tell.
        """
        run_secs = trial.result.run_secs if not trial.failure else [FAILED]
        record = self.record(task, trial.candidate, run_secs)
        self.database.commit_tuning_record(record)
        before, self._size = self._size, (self.path / RECORD_FILE).stat().st_size
        if self._size == before or jsonl.is_torn(self.path / RECORD_FILE):
            raise self._full_disk()
        self._records[self._task_of(record)].append(record)
        self._compare(record)
        self.run_log.write(TrialEnded(task=task.key, failure=trial.failure, message=trial.message))

    def best(self, task: Any) -> TuningRecord | None:
        """The best record of a `TaskState`: the one that was set, unless a later trial is faster,
        or else the fastest trial.
        """
        return self._best.get((task.key, str(task.target)))

    def set_best(self, record: TuningRecord) -> None:
        """Set the best record of a task, until a later trial is faster."""
        self._best[self._task_of(record)] = record

    def write_best(self, left_out: Container[_Task] = ()) -> None:
        """Write a database with the best record of each task but some, in place of an earlier one.
        That one stays if this raises an `OSError`; after a kill, the next `TrialStore` brings it
        back.
        """
        best = [record for task, record in self._best.items() if task not in left_out]
        new, old, aside = (
            self.path / f"{BEST_DATABASE}{suffix}" for suffix in (".new", "", _ASIDE)
        )
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir()
        database = JSONDatabase(work_dir=str(new))
        for record in best:
            commit(database, record)
        if _count_records(new) < len(best):
            raise OSError(f"{new} cannot be written: make room on its disk")
        (new / _TRIALS).write_text(str(_count_records(self.path)))
        jsonl.append(new / _UNTUNED, *self.untuned)
        jsonl.append(new / _VERIFIED, *self.verified.items())
        shutil.rmtree(aside, ignore_errors=True)
        if old.exists():
            shutil.move(old, aside)  # which copies a folder of a container's image
        new.rename(old)
        shutil.rmtree(aside, ignore_errors=True)

    def _compare(self, trial: TuningRecord) -> None:
        """Take a trial as the best of its task if it is faster than that."""
        task = self._task_of(trial)
        best = self._best.get(task)
        latency = seconds(best.run_secs) if best else inf
        if seconds(trial.run_secs) < latency:
            self._best[task] = trial
        elif latency == inf:  # one that was chosen without a trial, and now there is one
            self._best.pop(task, None)

    def _task_of(self, record: TuningRecord) -> _Task:
        """Known by its content, since each database has workloads of its own."""
        workload = record.workload
        if workload not in self._keys:
            self._keys[workload] = workload_key(workload.mod)
        return self._keys[workload], str(record.target)


def remove_if_empty(folder: Path) -> None:
    """Remove a folder that has nothing but the files of an empty database."""
    for file in (folder / RECORD_FILE, folder / WORKLOAD_FILE):
        if file.exists() and not file.stat().st_size:
            file.unlink()
    with suppress(OSError):  # it is not empty
        folder.rmdir()


def _count_records(folder: Path) -> int:
    """Number of records in a database's file: less than TVM's own count if its disk was full."""
    file = folder / RECORD_FILE
    return file.read_bytes().count(b"\n") if file.exists() else 0


def untuned_networks(best: str | PathLike[str]) -> set[tuple[str, ...]]:
    """The keys of the networks that are better untuned, of a database of the best."""
    return {tuple(map(str, value)) for value in _lists(Path(best) / _UNTUNED)}


def verified_networks(folder: str | PathLike[str]) -> dict[tuple[str, ...], bool]:
    """Whether `lower` keeps what networks compute, by their keys; of a work directory or a database
    of the best.
    """
    return {
        tuple(map(str, key)): bool(keeps)
        for file in (_VERIFIED, f"{BEST_DATABASE}/{_VERIFIED}")
        for key, keeps in _lists(Path(folder) / file)
    }


def _lists(file: Path) -> list[list[Any]]:
    """The lines of a file; none without it."""
    lines = file.read_bytes().splitlines() if file.exists() else []
    return [value for _, value in jsonl.read(lines) if isinstance(value, list)]
