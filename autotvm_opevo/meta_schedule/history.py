"""Databases of other networks, devices and runs, as sources of a transfer."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from tvm.ir import IRModule
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.meta_schedule.database import TuningRecord
from tvm.target import Target
from tvm_ffi import structural_equal

from autotvm_opevo._utils.text import pluralize
from autotvm_opevo.meta_schedule.database import RECORD_FILE, WORKLOAD_FILE, fitness, load_database, repair
from autotvm_opevo.meta_schedule.intrinsics import import_tensor_intrinsics
from autotvm_opevo.meta_schedule.space import DecisionSpace
from autotvm_opevo.search.source import Source, thin_out

# At most this many workloads of a database are looked at, those with the most records, and of each at most this many records.
_MAX_WORKLOADS, _MAX_RECORDS = 256, 512


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
        groups = _groups(folder)
        if not groups:
            raise ValueError(
                f"history must be work directories of MetaSchedule, {folder} has no record: leave it out, or check its name"
            )
        known = [source.results for source in found]
        found += (source._replace(origin=str(given)) for source in _sources(groups) if source.results not in known)
    return found


def read_others(folder: Path, mods: Iterable[IRModule], target: Target) -> list[Source]:
    """Sources of the work directory of a run: its workloads except for those of `mods` on `target`, which the run tunes."""
    own = list(mods)
    groups = [group for group in _groups(folder) if not any(_is_of(group[0], mod, target) for mod in own)]
    return [source._replace(origin=str(folder)) for source in _sources(groups)]


def describe_history(sources: Sequence[Source]) -> str:
    """How much there is to learn from.

    >>> describe_history([])
    '0 records of 0 tasks'
    """
    records = sum(len(source.results) for source in sources)
    return f"{pluralize(records, 'record')} of {pluralize(len(sources), 'task')}"


def _groups(folder: Path) -> list[list[TuningRecord]]:
    """The records of each workload and target."""
    groups: dict[Any, list[TuningRecord]] = {}
    for record in _records(folder):
        groups.setdefault((record.workload, str(record.target)), []).append(record)
    return list(groups.values())


def _is_of(record: TuningRecord, mod: IRModule, target: Target) -> bool:
    return bool(structural_equal(record.target, target) and structural_equal(record.workload.mod, mod))


def _sources(groups: Iterable[list[TuningRecord]]) -> list[Source]:
    largest = sorted(groups, key=lambda group: -len(group))[:_MAX_WORKLOADS]
    return [source for group in largest if (source := _source(group)) is not None]


def _records(folder: Path) -> list[TuningRecord]:
    """All records of a database, which may be torn, or in use."""
    with tempfile.TemporaryDirectory() as temporary:
        for name in (WORKLOAD_FILE, RECORD_FILE):
            if (folder / name).exists():
                shutil.copy(folder / name, temporary)
        try:
            repair(Path(temporary))
            return list(load_database(Path(temporary)).get_all_tuning_records())
        except ValueError as error:
            raise ValueError(f"history: {str(error).replace(temporary, str(folder))}") from error


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
    for record in thin_out(sorted(records, key=lambda record: -fitness(record.run_secs)), _MAX_RECORDS):
        try:
            configuration = decisions.configuration(record.trace)
        except ValueError:  # of other sketches
            continue
        results.setdefault(decisions.space.index(configuration), fitness(record.run_secs))
    return decisions.by_role(results) if any(results.values()) else None
