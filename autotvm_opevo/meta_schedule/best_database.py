"""The database of the best records in a work directory."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import islice
from os import PathLike
from pathlib import Path

from tvm.s_tir.meta_schedule.database import JSONDatabase, TuningRecord
from tvm.target import Target

from autotvm_opevo._utils import jsonl
from autotvm_opevo.meta_schedule.database import commit, latencies
from autotvm_opevo.tuning.logs import BEST_DATABASE, RECORD_FILE

# The files there with the number of records that the work directory had, and with the networks that are better untuned; and what
# is appended to the folder's name while it is replaced.
_TRIALS, _UNTUNED, _ASIDE = "trials", "untuned.json", ".old"


def write_best(folder: Path, best: Sequence[TuningRecord], trials: int = 0, untuned: Iterable[list[str]] = ()) -> Path:
    """Write a database with one record a task into a work directory, in place of an earlier one.

    It is the best of the first `trials` records there: later ones, of a call that was killed, can be better. Networks of
    `untuned`, by their keys, are better untuned. If the process is killed meanwhile, `restore_best` brings back the
    earlier one.

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
    jsonl.append(new / _UNTUNED, *untuned)
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


def network_key(target: Target, tasks: Iterable[str]) -> list[str]:
    """What identifies a network that was lowered: its target, and the keys of its tasks."""
    return [str(target), *sorted(tasks)]


def untuned_networks(best: str | PathLike[str]) -> list[list[str]]:
    """The keys of the networks that are better untuned, of a database of the best; see `network_key`."""
    file = Path(best) / _UNTUNED
    if not file.exists():
        return []
    with open(file, "rb") as lines:
        return [value for _, value in jsonl.read(lines) if isinstance(value, list)]


def latencies_before(folder: Path) -> set[tuple[float, ...]]:
    """Latencies, which tell them apart, of the records that a work directory had when its best were written."""
    file, records = folder / BEST_DATABASE / _TRIALS, folder / RECORD_FILE
    if not file.exists() or not records.exists():
        return set()
    with open(records, "rb") as lines, suppress(TypeError, ValueError):  # torn, or without latencies
        return {latencies(jsonl.load(line)[1][1]) for line in islice(lines, int(file.read_text()))}
    return set()
