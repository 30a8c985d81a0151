"""MetaSchedule's database: the records of a task, and the repair of a torn file."""

from __future__ import annotations

import logging
import re
from base64 import b64decode
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import takewhile
from os import PathLike
from pathlib import Path
from textwrap import shorten
from typing import Any

import tvm
from tvm.ir import IRModule
from tvm.s_tir.meta_schedule.database import (
    Database,
    JSONDatabase,
    MemoryDatabase,
    TuningRecord,
    Workload,
)
from tvm.target import Target
from tvm_ffi import structural_equal

from autotvm_opevo._utils import jsonl
from autotvm_opevo._utils.atomic_files import Lock, LogInUse, set_aside, terminated
from autotvm_opevo._utils.text import last_line, pluralize
from autotvm_opevo.meta_schedule.intrinsics import import_tensor_intrinsics
from autotvm_opevo.tuning.logs import RECORD_FILE, WORKLOAD_FILE, describe_file, kind_of_file
from autotvm_opevo.tuning.record_lines import (
    UNUSABLE_FROM,
    recorded_mean,
    seconds,
    workload_hash,
    workload_number,
)

logger = logging.getLogger(__name__)

LOCK = "lock"  # a file of the work directory
# Characters of TVM's reasons, which may have a whole workload.
_MAX_REASON = 300
# The instruction of a trace that needs tensor intrinsics.
_TENSORIZE = b'"Tensorize"'


def fitness(run_secs: Iterable[Any] | None) -> float:
    """Fitness of a trial: runs per second; 0 for a failure.

    >>> fitness([0.5]), fitness(None)
    (2.0, 0.0)
    """
    return 1.0 / seconds(run_secs)


def workload_key(mod: IRModule) -> str:
    """The structural hash of a workload, as MetaSchedule's files have it."""
    return str(Workload(mod).as_json()[0])


def records_of(database: Database, mod: IRModule, target: Target) -> list[TuningRecord]:
    """Records of a workload on a target, the best first."""
    if not database.has_workload(mod):
        return []
    workload = database.commit_workload(mod)
    records = [
        record
        for record in database.get_all_tuning_records()
        if record.workload.same_as(workload) and structural_equal(record.target, target)
    ]
    return sorted(records, key=lambda record: recorded_mean(record.run_secs))


def best_of(database: Database, mod: IRModule, target: Target) -> TuningRecord | None:
    """The best record of a workload on a target.

    One that was chosen without a trial is better than none; None without a successful one.
    """
    records = records_of(database, mod, target)
    return next((r for r in records if 0 < recorded_mean(r.run_secs) < UNUSABLE_FROM), None)


def database_with(records: Iterable[TuningRecord | None]) -> MemoryDatabase:
    """A database with these records and no others, in memory: TVM takes the fastest for a workload,
    whatever its target.
    """
    database = MemoryDatabase()
    for record in records:
        if record is not None:
            commit(database, record)
    return database


def commit(database: Database, record: TuningRecord) -> None:
    """Add a record of another database."""
    workload = database.commit_workload(record.workload.mod)
    database.commit_tuning_record(
        TuningRecord(record.trace, workload, record.run_secs, record.target, record.args_info)
    )


def open_existing(work_dir: str | PathLike[str]) -> JSONDatabase:
    """Open the database of a work directory that must have one; see `open_database`."""
    folder = Path(work_dir)
    if folder.is_file():
        raise ValueError(describe_file(folder))
    missing = [name for name in (RECORD_FILE, WORKLOAD_FILE) if not (folder / name).exists()]
    if len(missing) == 1:
        raise ValueError(
            f"{folder} has no {missing[0]}, the other file of its database of MetaSchedule: "
            "copy it there, too"
        )
    if missing:
        files = [f.name for f in sorted(folder.glob("*.json")) if kind_of_file(f) == RECORD_FILE]
        what_to_do = "check its name"
        if files:
            what_to_do = f"{files[0]} may be one, which must be called {RECORD_FILE}"
        raise ValueError(f"{folder} has no database of MetaSchedule: {what_to_do}")
    return open_database(folder)


def open_database(work_dir: str | PathLike[str]) -> JSONDatabase:
    """Open the database of a work directory; create it if missing, and repair it if torn.

    TVM refuses a database with a single malformed line, such as a power cut or a kill leaves
    behind. Here such lines move to ``database_*.json.rejected``. Nothing is repaired while
    `tune_network` runs in another process, or if the folder is read-only. TVM's own tuning
    functions take no lock: wait until they have ended.

    Parameters
    ----------
    work_dir : str or path
        Created if missing.

    Raises
    ------
    ValueError
        If there is a file of that name that is no database, one of the two files of a database is
        missing, or TVM cannot read well-formed lines.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     len(open_database(folder))
    0
    """
    folder = Path(work_dir)
    if folder.is_file():
        raise ValueError(describe_file(folder))
    folder.mkdir(parents=True, exist_ok=True)
    lock = Lock(folder / LOCK)
    try:
        lock.acquire(folder)
    except (LogInUse, OSError):
        return load_database(folder)
    try:
        repair(folder)
    finally:
        lock.release()
    return load_database(folder)


def repair(folder: Path) -> None:
    """Move malformed lines of a database to ``database_*.json.rejected``, with a warning. The
    caller must hold the lock. The files are left untouched if this raises a `ValueError`, since one
    is no database or missing, or TVM cannot read it.
    """
    if count := set_malformed_aside(folder):
        logger.warning(
            "%s of the database %s malformed, or of a malformed workload: see database_*.rejected",
            pluralize(count, "line"),
            folder,
        )


def set_malformed_aside(folder: Path) -> int:
    """Repair a database without a warning; returns the number of lines that were moved."""
    workload_file, record_file = folder / WORKLOAD_FILE, folder / RECORD_FILE
    workloads, records = _read(workload_file, workload_hash), _read(record_file, workload_number)
    if records and not workload_file.exists():
        raise ValueError(
            f"work_dir must have both files of a database, {folder} has no {WORKLOAD_FILE}, to "
            "which its records refer: copy it there, too, or name another"
        )
    if workloads and workloads[0][1] is not None:
        _check_version(folder, jsonl.load(workloads[0][0]))
    # Records refer to workloads by line number: those after a malformed line are lost.
    known = sum(1 for _ in takewhile(lambda pair: pair[1] is not None, workloads))
    kept_workloads = [(line, number < known) for number, (line, _) in enumerate(workloads)]
    kept_records = [(line, i is not None and i < known) for line, i in records]
    return _rewrite(workload_file, kept_workloads) + _rewrite(record_file, kept_records)


def load_database(folder: Path) -> JSONDatabase:
    """Open a database with TVM; a `ValueError` if TVM cannot read it."""
    records = folder / RECORD_FILE
    if records.exists() and _TENSORIZE in records.read_bytes():
        import_tensor_intrinsics()  # TVM applies each schedule, but imports them only to tune
    try:
        return JSONDatabase(work_dir=str(folder))
    except Exception as error:  # TVM raises many kinds
        raise _unreadable(folder, last_line(str(error))) from error


def _check_version(folder: Path, workload: Any) -> None:
    """Raise if TVM cannot read the first workload, of another version: it is not ours to repair."""
    try:
        Workload.from_json(workload)
    except Exception as error:  # TVM raises many kinds
        reason = last_line(str(error))
        with suppress(ValueError):
            mod = b64decode(workload[1]).decode()
            if written_by := re.search(r'"tvm_version": *"(.+?)"', mod):
                reason = f"it is of TVM {written_by[1]}, use it with that one"
        raise _unreadable(folder, reason) from error


def _unreadable(folder: Path, reason: str) -> ValueError:
    reason = shorten(reason, _MAX_REASON, placeholder=" ...")
    return ValueError(
        f"work_dir must have a database that TVM {tvm.__version__} can read, {folder} has not: "
        f"{reason}"
    )


def _read(path: Path, parse: Callable[[Any], Any]) -> list[tuple[bytes, Any]]:
    """Lines of a file and what `parse` makes of their values: None for malformed ones."""
    if not path.exists():
        return []
    with open(path, "rb") as file:
        # TVM cannot read a byte order mark
        texts = (line.removeprefix(BOM_UTF8) for line in file)
        lines = [(line, parse(jsonl.load(line))) for line in texts]
    if all(parsed is None for _, parsed in lines) and not all(
        _may_be_torn(line) for line, _ in lines
    ):
        raise ValueError(
            "work_dir must be a work directory of MetaSchedule or a new one, no line of "
            f"{path} is of a database: name another"
        )
    return lines


def _may_be_torn(line: bytes) -> bool:
    """Whether a power cut may have left a line: blank, zeros, or the beginning of an array."""
    text = line.strip(b"\0 \t\r\n")
    return not text or (
        text.startswith(b"[") and not line.endswith(b"\n") and jsonl.load(text) is jsonl.MALFORMED
    )


def _rewrite(path: Path, lines: Sequence[tuple[bytes, bool]]) -> int:
    """Set aside all lines but the good ones, and terminate the last; returns their number."""
    good = [line for line, is_good in lines if is_good]
    if lines and path.read_bytes() != b"".join(terminated(good)):
        set_aside(path, good, [line for line, is_good in lines if not is_good])
    return len(lines) - len(good)
