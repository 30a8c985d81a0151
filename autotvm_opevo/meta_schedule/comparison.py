"""Compare databases of MetaSchedule by the networks that are built with them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from math import inf
from os import PathLike
from typing import Any

import numpy as np
import tvm
from tvm.s_tir.meta_schedule.database import Database, TuningRecord
from tvm.s_tir.meta_schedule.runner import RPCRunner

from autotvm_opevo._utils.text import pluralize
from autotvm_opevo._utils.timeouts import run_compiler
from autotvm_opevo._utils.validation import AnyPath, as_paths, as_seconds
from autotvm_opevo.lowering.entry import bind_params
from autotvm_opevo.lowering.network import check_shapes, lower, lower_as_imported
from autotvm_opevo.meta_schedule.compilation import warn_of_untuned
from autotvm_opevo.meta_schedule.database import best_of, database_with, open_existing
from autotvm_opevo.meta_schedule.evaluation import (
    computed_dtypes,
    network_loader,
    open_device,
    random_inputs,
)
from autotvm_opevo.meta_schedule.store import untuned_networks, verified_networks
from autotvm_opevo.meta_schedule.targets import THIS_MACHINE, as_target
from autotvm_opevo.meta_schedule.tasks import extract, key_of, task_name
from autotvm_opevo.meta_schedule.worker import INDICES, build_schedule
from autotvm_opevo.tuning.comparison import Comparison, OperatorComparison, shown_when_aborted
from autotvm_opevo.tuning.logs import check_logs, common_target
from autotvm_opevo.tuning.programs import Timed, may_crash, random_arrays
from autotvm_opevo.tuning.record_lines import seconds

# A lowered network and its tasks.
_Lowered = tuple[tvm.IRModule, list[Any]]


def compare_logs(
    mod: tvm.IRModule,
    params: Any,
    target: str | dict[str, Any] | tvm.target.Target | None,
    logs: AnyPath | Iterable[AnyPath],
    *,
    time_limit: float = 180,
    runner: Any = None,
) -> Comparison:
    """Build a network with the best records of each database, and untuned, and time all of them
    interleaved.

    It ends once the fastest is told apart from each of the others, or within 1% of them. Then the
    operators that differ most are timed, too. With one database, it is compared with the untuned
    network. A database can be of `tune_network`, which lowers networks in its own way, or of TVM's
    ``tune_relax``; the operators of the one have no counterpart in the other.

    Parameters
    ----------
    mod : tvm.IRModule
        The network, as imported by one of Relax's frontends.
    params : dict or list, optional
        Its weights; see `compile_network`.
    target : str, dict or tvm.target.Target, optional
        That of the databases' records by default, if they have one in common.
    logs : path, or iterable of paths
        Folders of databases. The folder ``best`` in a work directory of `tune_network` has the
        re-measured best.
    time_limit : float
        Seconds for all timings; it takes longer by what the builds take.
    runner : optional
        An ``RPCRunner`` of MetaSchedule to time on one of its devices; this machine's by default.

    Raises
    ------
    ValueError
        If a folder has no database, is given twice, or has no successful record of this network on
        this target, or this machine's CPU cannot run what is compiled for it.
    FileNotFoundError
        If a folder does not exist.
    RuntimeError
        If a network cannot be built or run.
    TimeoutError
        If a network takes minutes to run, or no remote device is free for minutes.
    KeyboardInterrupt
        After Ctrl-C, once what is known is printed.

    Examples
    --------
    >>> import tempfile
    >>> from autotvm_opevo.meta_schedule import compare_logs, tune_network
    >>> from autotvm_opevo.networks import relax as workloads
    >>> mod, params = workloads.operator("matmul", [(8, 64), (64, 32)])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     log = f"{folder}/matmul"
    ...     result = tune_network(mod, params, "llvm", log, trials=4, evaluate=False)
    ...     comparison = compare_logs(mod, params, "llvm", [log], time_limit=5)
    >>> comparison.logs, comparison.outputs_match
    (['matmul'], True)
    """
    time_limit = as_seconds("time_limit", time_limit)
    logs = as_paths(logs)
    names = check_logs(logs)
    mod = bind_params(mod, params)
    check_shapes(mod)
    databases = [open_existing(log) for log in logs]
    if target is None:
        known = [
            {str(record.target): record.target for record in database.get_all_tuning_records()}
            for database in databases
        ]
        target = known[0][common_target(known)]
    else:
        target = as_target(target)
    if not isinstance(runner, RPCRunner):
        THIS_MACHINE.check(target)

    def lower_all() -> tuple[_Lowered, list[_Lowered]]:
        """As imported, and as it was for each log, which knows whether that keeps the outputs."""
        as_imported = lower_as_imported(mod, target)
        lowered = lower(mod, target)
        tasks, _ = extract(lowered, target)
        key = key_of(target, tasks)
        keeps = [verified_networks(log).get(key, True) for log in logs]
        ways: dict[bool, _Lowered] = {True: (lowered, tasks)}
        if not all(keeps):
            packable = lower(mod, target, as_imported=True)
            ways[False] = packable, extract(packable, target)[0]
        return (as_imported, extract(as_imported, target)[0]), [ways[way] for way in keeps]

    as_imported, of_logs = run_compiler(lower_all, "lowering the network")
    untuned = as_imported[0]
    tuned = [
        _best(name, log, database, (lowered, as_imported), target)
        for name, log, database, lowered in zip(names, logs, databases, of_logs)
    ]
    lowered, best = zip(*tuned)
    # tasks of networks that were lowered in several ways have no counterparts
    tasks = lowered[0][1] if all(way is lowered[0] for way in lowered) else []
    operators = [
        OperatorComparison(
            name=task_name(task),
            count=int(task.weight),
            best=records,
            latencies=[seconds(record.run_secs) if record else inf for record in records],
            # A configuration is its trace. Printed, it is the same just measured and loaded again,
            # whatever its instructions.
            same=len({str(record.trace) if record else None for record in records}) == 1,
        )
        for task, *records in zip(tasks, *best)
    ]
    comparison = Comparison(names, operators, dtypes=computed_dtypes(mod))
    with (
        shown_when_aborted(comparison),
        open_device(target, runner, time_limit) as (device, upload),
    ):
        inputs = random_inputs(untuned)
        alone = not isinstance(runner, RPCRunner) and may_crash(inputs, comparison.dtypes)
        load = network_loader(target, inputs, device, upload, alone)
        print(f"building {pluralize(1 + len(names), 'network')} for {target}", file=sys.stderr)
        networks = [load(untuned)]
        networks += [load(way[0], database_with(records)) for way, records in tuned]

        def load_kernel(record: TuningRecord) -> Callable[[], Timed]:
            load_library = upload(
                build_schedule(record.as_measure_candidate().sch.mod, record.target)
            )
            arrays = random_arrays(record.args_info)
            # integers are 1, as when it was measured
            arrays = [np.ones_like(x) if x.dtype.name in INDICES else x for x in arrays]
            return lambda: Timed(
                load_library(),
                "main",
                device,
                [tvm.runtime.tensor(array, device=device) for array in arrays],
            )

        comparison.time(networks, load_kernel, time_limit)
    return comparison


def _best(
    name: str,
    log: str | PathLike[str],
    database: Database,
    ways: tuple[_Lowered, _Lowered],
    target: tvm.target.Target,
) -> tuple[_Lowered, list[TuningRecord | None]]:
    """The way to lower the network for which a database has more records, and the best of each
    task; if untuned is better, the last way, and none.
    """
    if key_of(target, ways[0][1]) in untuned_networks(log):
        return ways[1], [None] * len(ways[1][1])
    of_ways = [
        [best_of(database, task.dispatched[0], target) for task in tasks] for _, tasks in ways
    ]
    i = max((0, 1), key=lambda i: sum(record is not None for record in of_ways[i]))
    best = of_ways[i]
    if not any(best):
        others = sorted({str(record.target) for record in database.get_all_tuning_records()})
        what = f"{pluralize(len(database), 'record')} for {', '.join(others)}"
        raise ValueError(
            f"{name} has no successful record of this network for {target}: it has "
            + (what if others else "no record")
        )
    warn_of_untuned(name, best.count(None), len(best))
    return ways[i], best
