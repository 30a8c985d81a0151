"""The database of the best records in a work directory."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

from tvm.s_tir.meta_schedule.database import Database, JSONDatabase, TuningRecord

from autotvm_opevo._utils import jsonl
from autotvm_opevo.meta_schedule.database import RECORD_FILE
from autotvm_opevo.tuning.logs import BEST_DATABASE

# The file there with the number of records that the work directory had.
_TRIALS = "trials"


def write_best(folder: Path, best: Sequence[TuningRecord], trials: int = 0) -> Path:
    """Write a database with one record a task into a work directory, in place of an earlier one.

    It is the best of the first `trials` records there: later ones, of a call that was killed, can be better.
    """
    new, old = folder / f"{BEST_DATABASE}.new", folder / BEST_DATABASE
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir()
    database = JSONDatabase(work_dir=str(new))
    for record in best:
        commit(database, record)
    (new / _TRIALS).write_text(str(trials))
    shutil.rmtree(old, ignore_errors=True)
    new.rename(old)
    return old


def latencies_before(folder: Path) -> set[tuple[float, ...]]:
    """Latencies, which tell them apart, of the records that a work directory had when its best were written."""
    file, records = folder / BEST_DATABASE / _TRIALS, folder / RECORD_FILE
    if not file.exists() or not records.exists():
        return set()
    with open(records, "rb") as lines, suppress(ValueError):  # torn
        return {tuple(map(float, jsonl.load(line)[1][1])) for line in islice(lines, int(file.read_text()))}
    return set()


def commit(database: Database, record: TuningRecord) -> None:
    """Add a record of another database."""
    workload = database.commit_workload(record.workload.mod)
    database.commit_tuning_record(TuningRecord(record.trace, workload, record.run_secs, record.target, record.args_info))
