"""MetaSchedule's database: what it knows of a task, and mended where a power cut has torn it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import Any

from tvm.ir import IRModule
from tvm.s_tir.meta_schedule.database import Database, JSONDatabase, TuningRecord
from tvm.target import Target
from tvm_ffi import structural_equal

from autotvm_opevo._utils.atomic_files import Lock, LogInUse, set_aside
from autotvm_opevo._utils.text import last_line

# Beside the database; who tunes the folder has it.
LOCK = "lock"
# TVM's word for a trial that failed.
_FAILED = 1e9


def seconds(run_secs: Iterable[Any] | None) -> float:
    """The mean of what was measured; infinite for a failure.

    >>> seconds([0.5, 1.5]), seconds(None), seconds([1e10])
    (1.0, inf, inf)
    """
    times = [float(time) for time in run_secs or ()]
    mean = sum(times) / len(times) if times else math.inf
    return mean if 0 < mean < _FAILED else math.inf


def fitness(run_secs: Iterable[Any] | None) -> float:
    """Runs a second; 0 for a failure.

    >>> fitness([0.5]), fitness(None)
    (2.0, 0.0)
    """
    return 1.0 / seconds(run_secs)


def records_of(database: Database, mod: IRModule, target: Target) -> list[TuningRecord]:
    """The records of a workload on a target, in the database's order: the best first. Other targets' are left out."""
    if not database.has_workload(mod):
        return []
    workload = database.commit_workload(mod)
    return [
        record
        for record in database.get_all_tuning_records()
        if record.workload.same_as(workload) and structural_equal(record.target, target)
    ]


def open_database(work_dir: str | PathLike[str], module_equality: str = "structural") -> JSONDatabase:
    """The database of a work directory, made if there is none, mended if its last line was torn.

    TVM refuses a database in which one line is broken, which is what a power cut or a kill leaves. Here such lines move to
    ``database_*.json.rejected``; all others stay. Nothing is mended while `tune_network` is at work on it in another process;
    where a function of TVM's is, open the database when that has ended.

    Parameters
    ----------
    work_dir : str or path
        A folder, made if there is none.
    module_equality : str
        As in ``tune_tir``.

    Raises
    ------
    ValueError
        If TVM cannot read what is there, though every line is whole.
    """
    folder = Path(work_dir)
    folder.mkdir(parents=True, exist_ok=True)
    lock = Lock(folder / LOCK)
    with suppress(LogInUse):
        lock.acquire(folder)
        try:
            mend(folder)
        finally:
            lock.release()
    return opened(folder, module_equality)


def mend(folder: Path) -> None:
    """Move broken lines out of the way. Only for who has the lock."""
    workloads = _mended(folder / "database_workload.json", lambda line: len(line) == 2, in_order=True)
    _mended(folder / "database_tuning_record.json", lambda line: 0 <= line[0] < workloads and len(line[1]) == 4)


def opened(folder: Path, module_equality: str = "structural") -> JSONDatabase:
    """The database as TVM opens it, or what is wrong with it."""
    try:
        return JSONDatabase(work_dir=str(folder), module_equality=module_equality)
    except (RuntimeError, ValueError) as error:
        reason = last_line(str(error))
        raise ValueError(f"work_dir must have a database that TVM {_version()} can read, {folder} has not: {reason}") from error


def _mended(path: Path, whole: Callable[[Any], bool], in_order: bool = False) -> int:
    """Move lines that are none out of the way, and, where their order counts, all after the first; returns how many are left."""
    if not path.exists():
        return 0
    good: list[bytes] = []
    bad: list[bytes] = []
    with open(path, "rb") as file:
        for line in file:
            try:
                fine = whole(json.loads(line)) and not (in_order and bad)
            except (LookupError, TypeError, ValueError):
                fine = False
            (good if fine else bad).append(line)
    if bad or not all(line.endswith(b"\n") for line in good):
        set_aside(path, good, bad)
    return len(good)


def _version() -> str:
    from tvm import __version__

    return str(__version__)
