"""From a network and the best schedules of a database to an executable."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import tvm
from tvm.s_tir import meta_schedule as ms
from tvm_ffi import structural_equal

from autotvm_opevo._utils.text import pluralize
from autotvm_opevo._utils.timeouts import run_compiler
from autotvm_opevo.lowering.entry import bind_params
from autotvm_opevo.lowering.network import build, lower, lower_as_imported
from autotvm_opevo.meta_schedule.database import best_of, database_with, open_existing
from autotvm_opevo.meta_schedule.store import untuned_networks, verified_networks
from autotvm_opevo.meta_schedule.targets import as_target
from autotvm_opevo.meta_schedule.tasks import key_of, lower_and_extract
from autotvm_opevo.tuning.logs import BEST_DATABASE
from autotvm_opevo.tuning.record_lines import seconds

logger = logging.getLogger(__name__)

# Which TVM does not let look at their records.
_UNIONS = ms.database.UnionDatabase, ms.database.OrderedUnionDatabase


def compile_network(
    mod: tvm.IRModule,
    params: Any,
    target: str | dict[str, Any] | tvm.target.Target,
    database: str | PathLike[str] | ms.database.Database | None = None,
) -> Any:
    """Compile a network with the best schedules of a database that `tune_network` made; untuned
    without one.

    Parameters
    ----------
    mod : tvm.IRModule
        The network, as it was tuned: its function ``main``, or its only one.
    params : dict or list, optional
        Its weights, by name: the executable holds them in the layouts that its schedules need. Or
        what Relax's frontends return: a list in the order of the function's parameters, such lists
        by function (``detach_params``), or pairs of name and value (``nn.Module.export_tvm``, if
        its parameters have data). Values are tensors or arrays of numpy; those without one stay
        inputs.
    target : str, dict or tvm.target.Target
    database : str, path or Database, optional
        ``result.best_file``, or any database but a union, of which each operator gets the fastest
        record for this target, or else for another one of its kind, with a warning, unless it names
        instructions of another CPU. Operators without any keep their default, with a warning, too.
        If `tune_network` found that the network is faster untuned, its best file says so, and the
        network is compiled as imported; so is one whose lowering changes the outputs, but for
        packed weights. The same holds for a target without records in the file, such as one with
        more cores. Databases in memory have no such marks.

    Returns
    -------
    tvm.relax.VMExecutable

    Raises
    ------
    ValueError
        If the target is unknown, weights do not fit the network, or there is no database of that
        name that this TVM can read.
    TimeoutError
        If TVM takes more than an hour.

    Examples
    --------
    >>> import tempfile
    >>> from autotvm_opevo.meta_schedule import compile_network, tune_network
    >>> from autotvm_opevo.networks import relax as workloads
    >>> mod, params = workloads.operator("matmul", [(8, 64), (64, 32)])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     result = tune_network(mod, params, "llvm", folder, trials=4, evaluate=False)
    ...     executable = compile_network(mod, params, "llvm", result.best_file)
    >>> type(executable).__name__  # for tvm.relax.VirtualMachine
    'VMExecutable'
    """
    target = as_target(target)
    mod = bind_params(mod, params)
    opened = open_existing(database) if isinstance(database, (str, PathLike)) else database
    if not isinstance(opened, (ms.database.Database, type(None))):
        given = type(opened).__name__
        raise ValueError(f"database must be a folder or a database of MetaSchedule, {given} given")
    if isinstance(opened, _UNIONS):
        raise ValueError(
            "database must be no union of databases: tune the networks into one work directory"
        )

    def compiled() -> Any:
        if opened is None or isinstance(opened, ms.database.ScheduleFnDatabase):
            return build(lower(mod, target), target, opened)
        lowered, tasks, _ = lower_and_extract(mod, target, _verified(opened, target))
        if _is_untuned(opened, tasks, target):
            return build(lower_as_imported(mod, target), target)
        return build(lowered, target, _best_records(opened, tasks, target))

    return run_compiler(compiled, "compiling the network")


def _folder(database: ms.database.Database) -> Path | None:
    """The folder of a database of files."""
    is_of_files = isinstance(database, ms.database.JSONDatabase)
    return Path(str(database.path_tuning_record)).parent if is_of_files else None


def _verified(
    database: ms.database.Database, target: tvm.target.Target
) -> dict[tuple[str, ...], bool]:
    """Whether `lower` keeps what networks compute, by their keys. What was found for another target
    holds for one without records, too, such as one with more cores.
    """
    folder = _folder(database)
    known = verified_networks(folder) if folder else {}
    records = database.get_all_tuning_records()
    if any(structural_equal(record.target, target) for record in records):
        return known
    elsewhere = {(str(target), *key[1:]): False for key, keeps in known.items() if not keeps}
    return {**elsewhere, **known}


def _is_untuned(
    database: ms.database.Database, tasks: Sequence[Any], target: tvm.target.Target
) -> bool:
    """Whether a network is better untuned: for this target, or else, without a record for it, for
    another one. Of a work directory, its database of the best says so.
    """
    folder, key = _folder(database), key_of(target, tasks)
    best = (folder, folder / BEST_DATABASE) if folder else ()
    untuned = set[tuple[str, ...]]().union(*map(untuned_networks, best))
    return key in untuned or (
        key[1:] in {other[1:] for other in untuned}
        and not any(best_of(database, task.dispatched[0], target) for task in tasks)
    )


def _best_records(
    database: ms.database.Database, tasks: Sequence[Any], target: tvm.target.Target
) -> ms.database.Database:
    """The best record for each task, with warnings about those that have none for the target."""
    records = database.get_all_tuning_records()
    targets = {str(record.target): record.target for record in records}
    others = [other for other in targets.values() if other.kind.name == target.kind.name]
    best = []
    for mod in (task.dispatched[0] for task in tasks):
        record = best_of(database, mod, target)
        if record is None:
            elsewhere = [best_of(database, mod, other) for other in others]
            usable = [other for other in elsewhere if other and _can_run(other, target)]
            record = min(usable, key=lambda record: seconds(record.run_secs), default=None)
        best.append(record)
    foreign = [record for record in best if record and not structural_equal(record.target, target)]
    if foreign:
        logger.warning(
            "%s applied that the database has for %s only, not %s",
            pluralize(len(foreign), "record"),
            ", ".join(sorted({str(record.target) for record in foreign})),
            target,
        )
    warn_of_untuned("the database", best.count(None), len(best))
    return database_with(best)


def _can_run(record: ms.database.TuningRecord, target: tvm.target.Target) -> bool:
    """Whether a CPU surely has the instructions that a schedule for another one names, such as
    AVX-512's: LLVM would end the process when the network is exported.
    """
    if target.kind.name != "llvm" or all(i.kind.name != "Tensorize" for i in record.trace.insts):
        return True
    as_many_cores = {**dict(record.target.export()), "num-cores": target.attrs["num-cores"]}
    return bool(structural_equal(tvm.target.Target(as_many_cores), target))


def warn_of_untuned(name: str, untuned: int, operators: int) -> None:
    """Warn if a database has no record for some operators of a network."""
    if untuned:
        logger.warning(
            "%s has no record for %d of %s, which keep their default: they may have been "
            "lowered differently, by another version or as another network",
            name,
            untuned,
            pluralize(operators, "operator"),
        )


def lower_for_tuning(
    mod: tvm.IRModule, params: Any, target: str | dict[str, Any] | tvm.target.Target
) -> tvm.IRModule:
    """Lower a network to the functions that are tuned; see `autotvm_opevo.lowering`.

    The schedules of a database apply only to a network that was lowered like this.
    `compile_network` does it all; nothing else builds such a network, whose concatenations may be
    marked only.

    Parameters
    ----------
    mod, params, target
        As of `compile_network`.

    Returns
    -------
    tvm.IRModule
        Its function, such as ``main``, calls the operators, which are its other functions.

    Examples
    --------
    >>> from autotvm_opevo.networks import relax as workloads
    >>> lowered = lower_for_tuning(*workloads.operator("matmul", [(8, 64), (64, 32)]), "llvm")
    >>> len(lowered.functions)
    2
    """
    return lower(bind_params(mod, params), as_target(target))
