"""What searches learn from: databases of other networks, devices and runs, and, before any, what
the bundled tuning records have.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from codecs import BOM_UTF8
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import takewhile
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.meta_schedule.database import TuningRecord
from tvm.target import Target
from tvm.target.codegen import target_has_features

from autotvm_opevo._utils import jsonl
from autotvm_opevo._utils.text import pluralize
from autotvm_opevo.meta_schedule.database import (
    fitness,
    load_database,
    seconds,
    set_malformed_aside,
    workload_hash,
    workload_number,
)
from autotvm_opevo.meta_schedule.intrinsics import import_tensor_intrinsics
from autotvm_opevo.meta_schedule.space import DecisionSpace
from autotvm_opevo.search.transfer import Source, thin_out
from autotvm_opevo.tuning.logs import RECORD_FILE, WORKLOAD_FILE, describe_file
from autotvm_opevo.tuning.prior import read_prior

T = TypeVar("T")

# At most this many workloads are looked at, those with the most records. TVM takes milliseconds and
# 80 kB for each record, so the workloads share this many; of each at least 16 and at most 128 are
# used.
_MAX_WORKLOADS, _RECORDS_TO_SHARE, _MIN_RECORDS, _MAX_RECORDS = 256, 2048, 16, 128


def read_history(work_dirs: Iterable[str | PathLike[str]]) -> list[Source]:
    """Read the work directories of MetaSchedule; nothing is written to them.

    Parameters
    ----------
    work_dirs : iterable of paths
        Of `tune_network`, ``tune_relax`` or ``tune_tir``. Malformed lines are skipped.

    Returns
    -------
    list of Source
        For each workload and target with a success, the best of its results and some others, with
        knobs by role (see `DecisionSpace.by_role`); of at most 256 workloads, and no copy of
        another.

    Raises
    ------
    ValueError
        If one of them has no database with a record.
    """
    folders = {Path(folder).resolve(): Path(folder) for folder in work_dirs}
    if folders:
        import_tensor_intrinsics()
    sources: list[Source] = []
    for folder, given in folders.items():
        if folder.is_file():
            raise ValueError(
                f"history must be work directories of MetaSchedule: {describe_file(given)}"
            )
        records = _records(folder)
        if not records:
            raise ValueError(
                f"history must be work directories of MetaSchedule, {folder} has no record: "
                "leave it out, or check its name"
            )
        sources += without_copies(sources_of(records, str(given)), sources)
    return sources


def sources_of(records: Iterable[TuningRecord], origin: str) -> list[Source]:
    """One source for each workload and target with a success; see `read_history`."""
    groups: dict[Any, list[TuningRecord]] = defaultdict(list)
    for record in records:
        groups[record.workload, str(record.target)].append(record)
    selected = _select(groups.values(), lambda record: seconds(record.run_secs))
    return [
        source._replace(origin=origin)
        for group in selected
        if (source := _source(group)) is not None
    ]


def without_copies(sources: Iterable[Source], known: Iterable[Source]) -> list[Source]:
    """The sources whose results are not those of a known one."""
    results = [source.results for source in known]
    return [source for source in sources if source.results not in results]


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
    return [thin_out(sorted(group, key=latency), size) for group in largest]


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
    workloads = _count_workloads(temporary / WORKLOAD_FILE)
    # latencies and positions
    groups: dict[tuple[int, str], list[tuple[float, int]]] = defaultdict(list)
    malformed, position = [], 0
    with open(folder / RECORD_FILE, "rb") as file, open(temporary / RECORD_FILE, "wb") as copy:
        for line in file:
            if parsed := _parse(line, workloads):
                groups[parsed[0]].append((parsed[1], position))
            else:
                malformed.append(line)
            position += len(line)
        for group in _select(groups.values(), lambda entry: entry[0]):
            for _, start in group:
                file.seek(start)
                copy.write(file.readline().removeprefix(BOM_UTF8).rstrip(b"\n") + b"\n")
        copy.writelines(malformed)  # the last line of the database may be torn


def _count_workloads(path: Path) -> int:
    """Number of workloads before the first malformed line."""
    if not path.exists():
        return 0
    with open(path, "rb") as file:
        return sum(
            1 for _ in takewhile(lambda line: workload_hash(jsonl.load(line)) is not None, file)
        )


def _parse(line: bytes, workloads: int) -> tuple[tuple[int, str], float] | None:
    """The workload and the target of a record, and its latency; None for a malformed line."""
    value = jsonl.load(line)
    number = workload_number(value)
    if number is None or number >= workloads:
        return None
    _, latencies, target, _ = value[1]
    try:
        return (number, json.dumps(target)), seconds(latencies)
    except (TypeError, ValueError):
        return None


def _source(records: list[TuningRecord]) -> Source | None:
    """The results of one workload; None if its sketches cannot be generated here, or none of its
    trials succeeded.
    """
    try:
        context = ms.TuneContext(
            mod=records[0].workload.mod,
            target=records[0].target,
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


def prior(target: Target) -> Sequence[Source]:
    """The sources that come with this package for a CPU, with knobs by role (see
    `DecisionSpace.by_role`).
    """
    return read_prior(prior_file(target))[""] if target.kind.name == "llvm" else ()


def prior_file(target: Target) -> Path:
    """The file for a CPU: what is best depends on how many values a vector has, and on the number
    of registers.

    AVX2's is the nearest to narrower vectors.
    """
    wide = target_has_features("avx512f", target)
    return Path(__file__).with_name("avx512_prior.json" if wide else "avx2_prior.json")
