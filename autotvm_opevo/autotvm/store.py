"""The trials of an AutoTVM log, which is read, repaired, appended to, and locked, with what its run
log knows of them.
"""

from __future__ import annotations

import logging
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cached_property
from math import inf
from pathlib import Path
from typing import Any

from tvm.autotvm.record import encode

from autotvm_opevo._utils import jsonl
from autotvm_opevo._utils.atomic_files import Lock, check_writable, set_aside, sync
from autotvm_opevo._utils.text import pluralize
from autotvm_opevo.autotvm.log import (
    Record,
    UnknownTarget,
    failure,
    fastest,
    key_of,
    parse,
    seconds,
)
from autotvm_opevo.autotvm.task_state import TaskState
from autotvm_opevo.tuning.logs import about, best_file
from autotvm_opevo.tuning.record_lines import RECORD_HEAD, split_line
from autotvm_opevo.tuning.run_log import RunLog, TrialEnded, run_log_file

logger = logging.getLogger(__name__)


class TrialStore:
    """See `tuning.task_state.TrialStore`: an AutoTVM log with a single writer; a context manager.
    The trials are of any networks and targets.

    Entering locks the log and moves lines that AutoTVM cannot parse to ``PATH.rejected``. All other
    lines are kept unchanged, those of records for targets that this TVM does not know too, but
    records that share a line, as in joined files, get one each. The lock file is ``PATH.lock``; the
    lock is released when the process ends, however it ends.

    An existing file without a single record is refused and left untouched, so that a mistyped name
    costs nothing. Exceptions are files that a crash leaves behind: empty or blank ones, and logs
    whose every record is truncated.

    The file is created if it does not exist, and removed if an error ends the context before it has
    a record. A `ValueError` if the path is a folder or a file that is not a log, `LogInUse` if
    another process holds the lock, an `OSError` if the log cannot be read or written.

    Attributes
    ----------
    path, best_file : Path
        Of the log, and of the best records as written at the end of the last run.
    records : list of (MeasureInput, MeasureResult)
        Records found on entering, in file order.
    rejected : int
        Number of lines moved to ``PATH.rejected``.
    run_log : RunLog
        Beside the log, from entering on.
    confirmed : dict of str to (MeasureInput, MeasureResult)
        By task: what was timed again last, as it was then.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        # replacing a symbolic link would leave its target unchanged
        self.path = Path(os.path.realpath(path))
        self.best_file = best_file(self.path)
        self.records: list[Record] = []
        self.rejected = 0
        self.run_log: RunLog
        self.confirmed: dict[str, Record] = {}
        # records that stay in the log and cannot be used, by the reason
        self._left_out: Counter[str] = Counter()
        self._is_new = False
        self._file: int | None = None
        self._lock = Lock(self.path.with_name(self.path.name + ".lock"))

    def __enter__(self) -> TrialStore:
        if not self.path.parent.is_dir():
            raise FileNotFoundError(
                f"log_file must be in an existing folder, {self.path.parent} does not exist"
            )
        if self.path.is_dir():
            raise ValueError(
                f"log_file must be a file, {self.path} is a "
                f"folder{about(self.path, 'name a file in it')}"
            )
        check_writable(self.path.parent, self.path)
        try:
            self._lock.acquire(self.path)
            self._is_new = not self.path.exists()
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
            sync(self.path.parent)
            self._read()
            self.run_log = RunLog(run_log_file(self.path), overwrite=not self.records)
            for known in self.run_log.runs.confirmed.values():
                with suppress(ValueError):
                    if confirmed := parse(known.record):
                        self.confirmed[_task_of(confirmed)] = confirmed
        except BaseException as error:
            self.__exit__(type(error))
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._file is not None:
            if kind is not None and self._is_new and os.fstat(self._file).st_size == 0:
                self.path.unlink()
            os.close(self._file)
            self._file = None
        self._lock.release()

    @cached_property
    def by_task(self) -> defaultdict[str, list[Record]]:
        """The records found on entering."""
        found: defaultdict[str, list[Record]] = defaultdict(list)
        for record in self.records:
            found[_task_of(record)].append(record)
        return found

    def append(self, task: TaskState, trial: Record) -> None:
        """Write a trial to the log and sync it to disk, and to the run log an error message, which
        the log lacks. An `OSError` if the disk is full, for example: no partial line is left.
        """
        assert self._file is not None, "append needs an entered store"
        line, written, whole = f"{encode(*trial)}\n".encode(), 0, os.fstat(self._file).st_size
        try:
            while written < len(line):
                written += os.write(self._file, line[written:])
            whole += written
            os.fsync(self._file)
        except OSError as error:
            os.ftruncate(self._file, whole)
            raise OSError(
                error.errno,
                f"cannot write the log: {error.strerror}. Earlier results are saved: make "
                "room and run this again",
                str(self.path),
            ) from error
        kind, message = failure(trial[1])
        if kind:
            self.run_log.write(TrialEnded(task=task.key, failure=kind, message=message))

    def best_of_others(self, workloads: Iterable[Any]) -> list[Record]:
        """The best record of each workload that the log had, but of these.

        Until a trial of the workload follows, it is the one that the file of the best has, which
        may have been chosen together with others, and what was left out of that file still is.
        ``apply_history_best`` would take the fastest for any similar target: a workload that was
        measured for several has one record, for the target that was measured last.
        """
        own = set(workloads)
        groups: dict[Any, list[Record]] = defaultdict(list)
        for record in self.records:
            workload = record[0].task.workload
            if workload not in own:
                groups[workload].append(record)
        kept, runs = _read_best(self.best_file), self.run_log.runs
        chosen = []
        for group in groups.values():
            task = _task_of(group[-1])
            last = kept.get(task)
            if (last or task in runs.left_out) and all(
                result.timestamp <= runs.best_written for _, result in group
            ):
                chosen.extend([last] if last else [])
            else:
                best = fastest(self.by_task[task], self.confirmed.get(task))
                chosen.extend([best] if seconds(best[1]) < inf else [])
        return chosen

    def _read(self) -> None:
        """Fill `records`, and repair the file."""
        kept, malformed = [], []
        with open(self.path, "rb") as file:
            for line in file:
                text = line.decode(errors="surrogateescape")
                if self._load(text.rstrip("\n")):
                    kept.append(line)
                    continue
                good: list[bytes] = []
                bad: list[bytes] = []
                for part in split_line(text):
                    (good if self._load(part) else bad).append(
                        part.encode(errors="surrogateescape")
                    )
                kept += good
                malformed += bad if good else [line]
        if not self.records and (self._left_out or not _is_crash_remnant(kept, malformed)):
            unusable = next(
                (f" that can be used, {why}: choose another name" for why in self._left_out), ""
            )
            why = unusable or about(self.path, "choose another name")
            raise ValueError(
                f"log_file must be a new file or an AutoTVM log, and {self.path}, which was "
                f"left untouched, has no record{why}"
            )
        for why, count in self._left_out.items():
            logger.warning("%s of %s left out, %s", pluralize(count, "record"), self.path.name, why)
        self.rejected = len(malformed)
        if malformed or not all(line.endswith(b"\n") for line in kept):  # as of joined ones
            assert self._file is not None
            set_aside(self.path, kept, malformed)
            os.close(self._file)
            self._file = os.open(self.path, os.O_RDWR | os.O_APPEND)

    def _load(self, line: str) -> bool:
        """Add the record of a line, if it has one; returns whether the line belongs in the log."""
        try:
            line.encode()
            parsed = parse(line)
        except UnknownTarget as error:
            self._left_out[str(error)] += 1
            return True
        except ValueError:
            return False
        if parsed is not None:
            self.records.append(parsed)
        return True


def _task_of(record: Record) -> str:
    return key_of(record[0].target, record[0].task)


def _read_best(file: Path) -> dict[str, Record]:
    """The records of a file by task."""
    records: dict[str, Record] = {}
    with suppress(OSError):
        for line in file.read_text(errors="replace").splitlines():
            with suppress(ValueError):  # it is written anew, so damage is no error
                if record := parse(line):
                    records[_task_of(record)] = record
    return records


def _is_crash_remnant(comments: Sequence[bytes], malformed: Sequence[bytes]) -> bool:
    """Whether a file without records is what a crash leaves of a log: nothing, blank lines, or
    truncated records.

    Comments alone prove nothing: Markdown headings and shell scripts have them, too.
    """
    texts = [text for line in malformed if (text := line.strip())]
    return bool(texts or not comments) and all(
        (text.startswith(RECORD_HEAD) or RECORD_HEAD.startswith(text))
        and jsonl.load(text) is jsonl.MALFORMED
        for text in texts
    )
