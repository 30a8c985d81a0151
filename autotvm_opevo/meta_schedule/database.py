"""MetaSchedule's database: the records of a task, and the repair of a torn file."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import takewhile
from os import PathLike
from pathlib import Path
from typing import Any

from tvm.ir import IRModule
from tvm.s_tir.meta_schedule.database import Database, JSONDatabase, TuningRecord
from tvm.target import Target
from tvm_ffi import structural_equal

from autotvm_opevo._utils import jsonl
from autotvm_opevo._utils.atomic_files import Lock, LogInUse, set_aside
from autotvm_opevo._utils.text import last_line

WORKLOAD_FILE = "database_workload.json"
RECORD_FILE = "database_tuning_record.json"
# Lock file of a work directory.
LOCK = "lock"
# TVM's latency of a failed trial is larger.
_FAILED = 1e9


def seconds(run_secs: Iterable[Any] | None) -> float:
    """Mean latency of a trial; infinite for a failure.

    >>> seconds([0.5, 1.5]), seconds(None), seconds([1e10])
    (1.0, inf, inf)
    """
    times = [float(time) for time in run_secs or ()]
    mean = sum(times) / len(times) if times else math.inf
    return mean if 0 < mean < _FAILED else math.inf


def fitness(run_secs: Iterable[Any] | None) -> float:
    """Fitness of a trial: runs per second; 0 for a failure.

    >>> fitness([0.5]), fitness(None)
    (2.0, 0.0)
    """
    return 1.0 / seconds(run_secs)


def records_of(database: Database, mod: IRModule, target: Target) -> list[TuningRecord]:
    """Records of a workload on a target, and on no other, in the database's order: the best first."""
    if not database.has_workload(mod):
        return []
    workload = database.commit_workload(mod)
    return [
        record
        for record in database.get_all_tuning_records()
        if record.workload.same_as(workload) and structural_equal(record.target, target)
    ]


def open_database(work_dir: str | PathLike[str], module_equality: str = "structural") -> JSONDatabase:
    """Open the database of a work directory; create it if missing, and repair it if torn.

    TVM refuses a database with a single malformed line, such as a power cut or a kill leaves behind. Here such lines move to
    ``database_*.json.rejected``. Nothing is repaired while `tune_network` runs in another process. One of TVM's own tuning
    functions takes no lock: wait until it has ended.

    Parameters
    ----------
    work_dir : str or path
        Created if missing.
    module_equality : str
        As in ``tune_tir``.

    Raises
    ------
    ValueError
        If there is a file of that name that is no database, or TVM cannot read well-formed lines.
    """
    folder = Path(work_dir)
    folder.mkdir(parents=True, exist_ok=True)
    lock = Lock(folder / LOCK)
    with suppress(LogInUse):
        lock.acquire(folder)
        try:
            repair(folder)
        finally:
            lock.release()
    return load_database(folder, module_equality)


def repair(folder: Path) -> None:
    """Move malformed lines of a database to ``database_*.json.rejected``. The caller must hold the lock.

    Raises
    ------
    ValueError
        If one of the files is no database; both are left untouched.
    """
    workload_file, record_file = folder / WORKLOAD_FILE, folder / RECORD_FILE
    workloads, records = _read(workload_file, workload_hash), _read(record_file, workload_number)
    # Records refer to workloads by line number: those after a malformed line are lost.
    known = sum(1 for _ in takewhile(lambda pair: pair[1] is not None, workloads))
    _rewrite(workload_file, [(line, number < known) for number, (line, _) in enumerate(workloads)])
    _rewrite(record_file, [(line, workload is not None and workload < known) for line, workload in records])


def load_database(folder: Path, module_equality: str = "structural") -> JSONDatabase:
    """Open a database with TVM.

    Raises
    ------
    ValueError
        If TVM cannot read it.
    """
    try:
        return JSONDatabase(work_dir=str(folder), module_equality=module_equality)
    except (RuntimeError, ValueError) as error:
        reason = last_line(str(error))
        raise ValueError(f"work_dir must have a database that TVM {_version()} can read, {folder} has not: {reason}") from error


def _read(path: Path, parse: Callable[[Any], Any]) -> list[tuple[bytes, Any]]:
    """Lines of a file and what `parse` makes of their values: None for malformed ones."""
    if not path.exists():
        return []
    with open(path, "rb") as file:
        lines = [(line, parse(jsonl.load(line))) for line in file]
    if all(parsed is None for _, parsed in lines) and not all(_may_be_torn(line) for line, _ in lines):
        raise ValueError(
            f"work_dir must be a work directory of MetaSchedule or a new one, no line of {path} is of a database: name another"
        )
    return lines


def workload_hash(value: Any) -> str | None:
    """Hash of a workload, which a line of its own holds beside the module."""
    if isinstance(value, list) and len(value) == 2 and all(isinstance(part, str) for part in value):
        return str(value[0])
    return None


def workload_number(value: Any) -> int | None:
    """Line number of a record's workload, which the record's line holds beside trace, latencies, target and arguments."""
    if isinstance(value, list) and len(value) == 2 and isinstance(value[0], int) and value[0] >= 0:
        return value[0] if isinstance(value[1], list) and len(value[1]) == 4 else None
    return None


def _may_be_torn(line: bytes) -> bool:
    """Whether a power cut may have left this line of a database: blank, zeros, or the beginning of an array."""
    text = line.strip(b"\0 \t\r\n")
    return not text or (text.startswith(b"[") and not line.endswith(b"\n") and jsonl.load(text) is jsonl.MALFORMED)


def _rewrite(path: Path, lines: Sequence[tuple[bytes, bool]]) -> None:
    """Set aside all lines but the good ones, and terminate the last; leave the file alone if there is nothing to do."""
    good = [line for line, is_good in lines if is_good]
    if len(good) < len(lines) or not all(line.endswith(b"\n") for line in good):
        set_aside(path, good, [line for line, is_good in lines if not is_good])


def _version() -> str:
    from tvm import __version__

    return str(__version__)
