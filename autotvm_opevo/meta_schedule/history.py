"""Databases of other networks, devices and runs, as sources of a transfer."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.meta_schedule.database import TuningRecord
from tvm.target import Target
from tvm_ffi import structural_equal

from autotvm_opevo._utils import jsonl
from autotvm_opevo._utils.text import pluralize
from autotvm_opevo.meta_schedule.database import (
    RECORD_FILE,
    WORKLOAD_FILE,
    fitness,
    load_database,
    repair,
    seconds,
    workload_hash,
    workload_number,
)
from autotvm_opevo.meta_schedule.intrinsics import import_tensor_intrinsics
from autotvm_opevo.meta_schedule.space import DecisionSpace
from autotvm_opevo.search.source import Source, thin_out

# At most this many workloads of a database are looked at, those with the most records, and of each at most this many records,
# fewer of many workloads: TVM takes milliseconds and 80 kB for each.
_MAX_WORKLOADS, _MAX_RECORDS, _MIN_RECORDS, _MAX_RECORDS_IN_ALL = 256, 128, 16, 2048


def read_history(work_dirs: Iterable[str | PathLike[str]]) -> list[Source]:
    """Read the work directories of MetaSchedule; nothing is written to them.

    Parameters
    ----------
    work_dirs : iterable of paths
        Of `tune_network`, ``tune_relax`` or ``tune_tir``. Malformed lines are skipped.

    Returns
    -------
    list of Source
        For each workload and target with a success, its results, with knobs by role (see `DecisionSpace.by_role`); a copy of
        another is left out.

    Raises
    ------
    ValueError
        If one of them has no database with a record.
    """
    folders = {Path(folder).resolve(): Path(folder) for folder in work_dirs}
    if folders:
        import_tensor_intrinsics()
    found: list[Source] = []
    for folder, given in folders.items():
        sources = _sources(folder, lambda *_: True)
        if not sources:
            raise ValueError(
                f"history must be work directories of MetaSchedule, {folder} has no record: leave it out, or check its name"
            )
        known = [source.results for source in found]
        found += (source._replace(origin=str(given)) for source in sources if source and source.results not in known)
    return found


def read_others(folder: Path, workloads: Collection[str], target: Target) -> list[Source]:
    """Sources of the work directory of a run: its workloads except for those that the run tunes.

    Parameters
    ----------
    folder : Path
    workloads : collection of str
        Structural hashes of those that the run tunes, as in the database.
    target : Target
        Of the run; of other targets, the same workloads are sources, too.
    """

    def is_other(workload: str, of_target: str) -> bool:
        return workload not in workloads or not structural_equal(Target(json.loads(of_target)), target)

    return [source._replace(origin=str(folder)) for source in _sources(folder, is_other) if source]


def describe_history(sources: Sequence[Source]) -> str:
    """How much there is to learn from.

    >>> describe_history([])
    '0 records of 0 tasks'
    """
    records = sum(len(source.results) for source in sources)
    return f"{pluralize(records, 'record')} of {pluralize(len(sources), 'task')}"


def _sources(folder: Path, is_wanted: Callable[[str, str], bool]) -> list[Source | None]:
    """For each workload and target in a database that are wanted, its source, or None if it has none."""
    groups: dict[Any, list[TuningRecord]] = defaultdict(list)
    for record in _records(folder, is_wanted):
        groups[record.workload, str(record.target)].append(record)
    return [_source(group) for group in groups.values()]


def _records(folder: Path, is_wanted: Callable[[str, str], bool]) -> list[TuningRecord]:
    """The records of a database that are used; it may be torn, or in use."""
    with tempfile.TemporaryDirectory() as temporary:
        if (folder / WORKLOAD_FILE).exists():
            shutil.copy(folder / WORKLOAD_FILE, temporary)
        if (folder / RECORD_FILE).exists():
            _copy_some(folder, Path(temporary), is_wanted)
        try:
            repair(Path(temporary))
            return list(load_database(Path(temporary)).get_all_tuning_records())
        except ValueError as error:
            raise ValueError(f"history: {str(error).replace(temporary, str(folder))}") from error


def _copy_some(folder: Path, temporary: Path, is_wanted: Callable[[str, str], bool]) -> None:
    """Copy the lines of records that are used, and those that `repair` has to judge."""
    hashes = _hashes(temporary / WORKLOAD_FILE)
    groups: dict[tuple[str, str], list[tuple[float, int]]] = defaultdict(list)  # latencies and positions
    malformed, position = [], 0
    with open(folder / RECORD_FILE, "rb") as file, open(temporary / RECORD_FILE, "wb") as copy:
        for line in file:
            if parsed := _parse(line, hashes):
                groups[parsed[0]].append((parsed[1], position))
            else:
                malformed.append(line)
            position += len(line)
        largest = sorted((group for key, group in groups.items() if is_wanted(*key)), key=lambda group: -len(group))[
            :_MAX_WORKLOADS
        ]
        size = min(_MAX_RECORDS, max(_MIN_RECORDS, _MAX_RECORDS_IN_ALL // max(1, len(largest))))
        for _, position in (one for group in largest for one in thin_out(sorted(group), size)):
            file.seek(position)
            copy.write(file.readline().rstrip(b"\n") + b"\n")
        copy.writelines(malformed)  # the last line of the database may be torn


def _hashes(path: Path) -> list[str | None]:
    """The structural hash of each workload; None for a malformed line."""
    if not path.exists():
        return []
    with open(path, "rb") as file:
        return [workload_hash(jsonl.load(line)) for line in file]


def _parse(line: bytes, hashes: Sequence[str | None]) -> tuple[tuple[str, str], float] | None:
    """The workload's hash and the target of a record, and its latency; None for a malformed line."""
    value = jsonl.load(line)
    number = workload_number(value)
    workload = hashes[number] if number is not None and number < len(hashes) else None
    if workload is None:
        return None
    _, latencies, target, _ = value[1]
    try:
        return (workload, json.dumps(target)), seconds(latencies)
    except (TypeError, ValueError):
        return None


def _source(records: list[TuningRecord]) -> Source | None:
    """The results of one workload; None if its sketches cannot be generated here, or none of its trials succeeded."""
    try:
        context = ms.TuneContext(
            mod=records[0].workload.mod, target=records[0].target, space_generator="post-order-apply", rand_state=1
        )
        decisions = DecisionSpace(context.mod, context.generate_design_space(), [])
    except (RuntimeError, ValueError):  # of a target that this TVM was not built for, or a structure that it no longer has
        return None
    results: dict[int, float] = {}
    for record in sorted(records, key=lambda record: -fitness(record.run_secs)):
        try:
            configuration = decisions.configuration(record.trace)
        except ValueError:  # of other sketches
            continue
        results.setdefault(decisions.space.index(configuration), fitness(record.run_secs))
    return decisions.by_role(results) if any(results.values()) else None
