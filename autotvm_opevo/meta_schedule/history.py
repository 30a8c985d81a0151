"""What searches learn from: databases of other networks, devices and runs."""

from __future__ import annotations

import json
import shutil
import tempfile
from codecs import BOM_UTF8
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from itertools import takewhile
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.meta_schedule.database import TuningRecord

from autotvm_opevo._utils import jsonl
from autotvm_opevo._utils.text import pluralize
from autotvm_opevo._utils.timeouts import say_if_long
from autotvm_opevo.meta_schedule.database import fitness, load_database, set_malformed_aside
from autotvm_opevo.meta_schedule.intrinsics import few_intrinsics
from autotvm_opevo.meta_schedule.space import DecisionSpace
from autotvm_opevo.search.transfer import Source, subsample
from autotvm_opevo.tuning.logs import RECORD_FILE, WORKLOAD_FILE, describe_file
from autotvm_opevo.tuning.record_lines import seconds, workload_hash, workload_number

T = TypeVar("T")

# At most this many workloads are looked at, those with the most records. TVM takes milliseconds and
# 80 kB for each record, so the workloads share this many; of each at least 16 and at most 128 are
# used.
_MAX_WORKLOADS, _RECORDS_TO_SHARE, _MIN_RECORDS, _MAX_RECORDS = 256, 2048, 16, 128


def read_history(work_dirs: Iterable[str | PathLike[str]]) -> list[Source]:
    """Read work directories of `tune_network`, ``tune_relax`` or ``tune_tir``; nothing is written
    to them, and malformed lines are skipped. A `ValueError` if one has no database with a record.

    Returns
    -------
    list of Source
        For each workload and target with a success, the best of its results and some others, with
        knobs by role (see `DecisionSpace.by_role`); of at most 256 workloads.
    """
    folders = {Path(folder).resolve(): Path(folder) for folder in work_dirs}
    sources: list[Source] = []
    for folder, given in folders.items():
        if folder.is_file():
            raise ValueError(
                f"history must be work directories of MetaSchedule: {describe_file(given)}"
            )
        with say_if_long(f"reading {given}"):
            records = _records(folder)
            if not records:
                raise ValueError(
                    f"history must be work directories of MetaSchedule, {folder} has no record: "
                    "leave it out, or check its name"
                )
            sources += sources_of(records, str(given))
    return sources


def sources_of(records: Iterable[TuningRecord], origin: str) -> list[Source]:
    """One source for each workload and target with a success; see `read_history`."""
    groups: dict[Any, list[TuningRecord]] = defaultdict(list)
    for record in records:
        groups[record.workload, str(record.target)].append(record)
    selected = _select(groups.values(), lambda record: seconds(record.run_secs))
    return [source._replace(origin=origin) for source in map(_source, selected) if source]


def describe_history(sources: Sequence[Source]) -> str:
    """How much there is to learn from.

    >>> describe_history([])
    '0 records of 0 tasks'
    """
    records = sum(len(source.results) for source in sources)
    return f"{pluralize(records, 'record')} of {pluralize(len(sources), 'task')}"


def _select(groups: Collection[Sequence[T]], latency: Callable[[T], float]) -> list[list[T]]:
    """Of the largest groups, the best records and some others."""
    largest = sorted(groups, key=lambda group: -len(group))[:_MAX_WORKLOADS]
    size = min(_MAX_RECORDS, max(_MIN_RECORDS, _RECORDS_TO_SHARE // max(1, len(largest))))
    return [subsample(sorted(group, key=latency), size) for group in largest]


def _records(folder: Path) -> list[TuningRecord]:
    """The records of a database that are used; it may be torn, or in use."""
    with tempfile.TemporaryDirectory() as temporary:
        if (folder / WORKLOAD_FILE).exists():
            shutil.copy(folder / WORKLOAD_FILE, temporary)
        if (folder / RECORD_FILE).exists():
            _copy_some(folder, Path(temporary))
        try:
            set_malformed_aside(Path(temporary))
            return list(load_database(Path(temporary)).get_all_tuning_records())
        except ValueError as error:
            raise ValueError(f"history: {str(error).replace(temporary, str(folder))}") from error


def _copy_some(folder: Path, temporary: Path) -> None:
    """Copy the lines of records that are used, and those that `set_malformed_aside` will judge."""
    workloads = 0  # before the first malformed line
    if (temporary / WORKLOAD_FILE).exists():
        with open(temporary / WORKLOAD_FILE, "rb") as file:
            workloads = sum(1 for _ in takewhile(workload_hash, map(jsonl.load, file)))
    # latencies and positions
    groups: dict[tuple[int, str], list[tuple[float, int]]] = defaultdict(list)
    malformed, position = [], 0
    with open(folder / RECORD_FILE, "rb") as file, open(temporary / RECORD_FILE, "wb") as copy:
        for line in file:
            value, key = jsonl.load(line), None
            number = workload_number(value)
            if number is not None and number < workloads:
                with suppress(TypeError, ValueError):
                    latency, key = seconds(value[1][1]), (number, json.dumps(value[1][2]))
            if key is None:
                malformed.append(line)
            else:
                groups[key].append((latency, position))
            position += len(line)
        for group in _select(groups.values(), lambda entry: entry[0]):
            for _, start in group:
                file.seek(start)
                copy.write(file.readline().removeprefix(BOM_UTF8).rstrip(b"\n") + b"\n")
        copy.writelines(malformed)  # the last line of the database may be torn


def _source(records: list[TuningRecord]) -> Source | None:
    """The results of a workload; None if none is a success, or no sketch can be generated here."""
    target = records[0].target
    try:
        with few_intrinsics(target):
            context = ms.TuneContext(
                mod=records[0].workload.mod,
                target=target,
                space_generator="post-order-apply",
                rand_state=1,
            )
        decisions = DecisionSpace(context.mod, context.generate_design_space(), [])
    except (RuntimeError, ValueError):
        # of a target that this TVM was not built for, or a structure that it no longer has
        return None
    results: dict[int, float] = {}
    for record in sorted(records, key=lambda record: -fitness(record.run_secs)):
        try:
            configuration = decisions.configuration(record.trace)
        except ValueError:  # of other sketches
            continue
        results.setdefault(decisions.space.index(configuration), fitness(record.run_secs))
    return decisions.by_role(results) if any(results.values()) else None
