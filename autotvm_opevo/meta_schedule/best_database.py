"""The database of the best records in a work directory."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

from tvm.s_tir.meta_schedule.database import JSONDatabase, TuningRecord

from autotvm_opevo._utils import jsonl
from autotvm_opevo.meta_schedule.database import commit, latencies
from autotvm_opevo.tuning.logs import BEST_DATABASE, RECORD_FILE

# The file there with the number of records that the work directory had, and what is appended to its name while it is replaced.
_TRIALS, _ASIDE = "trials", ".old"


def write_best(folder: Path, best: Sequence[TuningRecord], trials: int = 0) -> Path:
    """Write a database with one record a task into a work directory, in place of an earlier one.

    It is the best of the first `trials` records there: later ones, of a call that was killed, can be better. If the process is
    killed meanwhile, `restore_best` brings back the earlier one.

    Raises
    ------
    OSError
        If it cannot be written; the earlier one stays.
    """
    new, old, aside = (folder / f"{BEST_DATABASE}{suffix}" for suffix in (".new", "", _ASIDE))
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir()
    database = JSONDatabase(work_dir=str(new))
    for record in best:
        commit(database, record)
    if count_records(new) < len(best):
        raise OSError(f"{new} cannot be written: make room on its disk")
    (new / _TRIALS).write_text(str(trials))
    shutil.rmtree(aside, ignore_errors=True)
    if old.exists():
        old.rename(aside)
    new.rename(old)
    shutil.rmtree(aside, ignore_errors=True)
    return old


def count_records(folder: Path) -> int:
    """Number of records in a database's file: less than TVM's own count if its disk was full."""
    file = folder / RECORD_FILE
    return file.read_bytes().count(b"\n") if file.exists() else 0


def restore_best(folder: Path) -> None:
    """Bring back the database of the best of a work directory, if a call was killed while it replaced it."""
    old, aside = folder / BEST_DATABASE, folder / f"{BEST_DATABASE}{_ASIDE}"
    if aside.exists() and not old.exists():
        aside.rename(old)


def latencies_before(folder: Path) -> set[tuple[float, ...]]:
    """Latencies, which tell them apart, of the records that a work directory had when its best were written."""
    file, records = folder / BEST_DATABASE / _TRIALS, folder / RECORD_FILE
    if not file.exists() or not records.exists():
        return set()
    with open(records, "rb") as lines, suppress(TypeError, ValueError):  # torn, or without latencies
        return {latencies(jsonl.load(line)[1][1]) for line in islice(lines, int(file.read_text()))}
    return set()
