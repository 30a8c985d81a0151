"""Compare logs of AutoTVM by the networks that are built with them."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from math import inf
from pathlib import Path
from typing import Any
from unittest.mock import patch

import tvm
from tvm import autotvm, relay
from tvm.autotvm.measure.measure import Runner
from tvm.autotvm.task import Task

from autotvm_opevo._utils.text import pluralize
from autotvm_opevo._utils.timeouts import run_compiler
from autotvm_opevo._utils.validation import AnyPath, as_paths, as_seconds
from autotvm_opevo.autotvm.evaluation import (
    build_networks,
    computed_dtypes,
    load_networks,
    open_device,
)
from autotvm_opevo.autotvm.extraction import extract, without_tophub
from autotvm_opevo.autotvm.folding import fold
from autotvm_opevo.autotvm.log import (
    Record,
    UnknownTarget,
    key_of,
    parse,
    read_fields,
    seconds,
)
from autotvm_opevo.autotvm.rpc import DevicePool
from autotvm_opevo.autotvm.runner import is_remote
from autotvm_opevo.autotvm.targets import as_target, check_device
from autotvm_opevo.tuning.comparison import (
    Comparison,
    OperatorComparison,
    shown_when_aborted,
)
from autotvm_opevo.tuning.logs import about, check_logs, common_target
from autotvm_opevo.tuning.programs import Array, Timed, random_arrays
from autotvm_opevo.tuning.record_lines import task_name
from autotvm_opevo.tuning.task_scheduler import Operator


@without_tophub()
def compare_logs(
    mod: tvm.IRModule | relay.Function,
    params: dict[str, tvm.nd.NDArray] | None,
    target: str | tvm.target.Target | None,
    logs: AnyPath | Iterable[AnyPath],
    *,
    time_limit: float = 180,
    runner: Runner | None = None,
) -> Comparison:
    """Build a network with the best records of each log, and untuned, and time all interleaved.

    It ends once the fastest is told apart from each of the others, or within 1% of them. Then the
    operators that differ most are timed, too. With one log, it is compared with the untuned
    network.

    Parameters
    ----------
    mod : tvm.IRModule or relay.Function
        The network.
    params : dict, optional
        Its weights, by name.
    target : str or tvm.target.Target, optional
        That of the logs' records by default, if they have one in common.
    logs : path, or iterable of paths
        AutoTVM's; they are only read. ``NAME.best.json`` of `tune_network` has the re-measured
        best.
    time_limit : float
        Seconds for all timings; it takes longer by what the builds take, a few seconds for each
        log.
    runner : optional
        An ``autotvm.RPCRunner`` to time on a remote device; this machine's by default.

    Returns
    -------
    Comparison

    Raises
    ------
    ValueError
        If a log is given twice or has no successful record of this network on this target, or this
        machine lacks its device.
    OSError
        If a log cannot be read.
    RuntimeError
        If a network cannot be built or run.
    DevicePoolError
        If there is no such remote device.
    TimeoutError
        If the device does not answer.
    KeyboardInterrupt
        After Ctrl-C, once what is known is printed.

    Examples
    --------
    >>> import tempfile
    >>> from autotvm_opevo.autotvm import compare_logs, tune_network
    >>> from autotvm_opevo.networks import relay as workloads
    >>> mod, params = workloads.operator("nn.dense", [(8, 64), (32, 64)])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     log = f"{folder}/dense.json"
    ...     result = tune_network(mod, params, "llvm", log, trials=4, evaluate=False)
    ...     comparison = compare_logs(mod, params, "llvm", [log], time_limit=5)
    >>> comparison.logs, comparison.outputs_match
    (['dense.json'], True)
    """
    time_limit = as_seconds("time_limit", time_limit)
    logs = as_paths(logs)
    names = check_logs(logs)
    best_of_logs = [_best_records(Path(log)) for log in logs]
    if target is None:
        target = common_target(
            [{str(record[0].target) for record in best.values()} for best in best_of_logs]
        )
    target = as_target(target)
    runner = runner or autotvm.LocalRunner()
    check_device(target, runner)
    if is_remote(runner):
        DevicePool(runner)  # raises an error if there is none
    mod = run_compiler(partial(fold, mod, params), "folding constants")
    network = run_compiler(partial(extract, mod, target), "extracting tasks")
    if network.only_vm:
        raise ValueError(
            "networks that TVM's graph executor can run are compared, this one has "
            f"{network.only_vm}"
        )
    tasks = network.tasks
    best_of_logs = [
        _of_network(name, best, tasks, target) for name, best in zip(names, best_of_logs)
    ]
    operators = [_compare(operator, tasks, best_of_logs) for operator in network.operators]
    comparison = Comparison(names, operators, dtypes=computed_dtypes(mod))
    with shown_when_aborted(comparison):
        print(f"building {pluralize(1 + len(names), 'network')} for {target}", file=sys.stderr)
        libraries = build_networks(
            mod, target, [[*best.values()] for best in ({}, *best_of_logs)], runner
        )
        with open_device(target, runner, time_limit) as (device, upload):
            networks = load_networks(libraries, mod, device, upload)

            def load_kernel(record: Record) -> Callable[[], Timed]:
                library, arrays = _build_kernel(record, target)
                load_library = upload(library)
                return lambda: Timed(
                    load_library(),
                    library.entry_name,
                    device,
                    [tvm.nd.array(array, device) for array in arrays],
                )

            comparison.time(networks, load_kernel, time_limit)
    return comparison


def _best_records(log: Path) -> dict[str, Record]:
    """The fastest successful record of each task, of any network."""
    if log.is_dir():
        raise ValueError(
            f"{log} is a folder, not a log of AutoTVM: a MetaSchedule database needs a TVM "
            "with MetaSchedule"
        )
    # by the task's JSON, since parsing each record takes long
    fastest: dict[str, tuple[float, Record]] = {}
    why = ""
    for line, fields in read_fields(log):
        key, latency = json.dumps(fields.input), seconds(fields.result)
        try:
            if latency < fastest.get(key, (inf,))[0] and (record := parse(line)):
                fastest[key] = latency, record
        except UnknownTarget as error:
            why = f" that can be used, {error}"
        except ValueError:  # not a record
            continue
    if not fastest:
        raise ValueError(
            f"{log} has no successful record of AutoTVM{why or about(log, 'check its name')}"
        )
    best: dict[str, Record] = {}
    # a target can be written in several ways
    for _, record in sorted(fastest.values(), key=lambda pair: pair[0]):
        best.setdefault(key_of(record[0].target, record[0].task), record)
    return best


def _of_network(
    name: str, records: dict[str, Record], tasks: Sequence[Task], target: tvm.target.Target
) -> dict[str, Record]:
    """The records of a network's tasks."""
    keys = [key_of(target, task) for task in tasks]
    best = {key: records[key] for key in keys if key in records}
    if best:
        return best
    workloads = {task.workload for task in tasks}
    recorded = [measured for measured, _ in records.values()]
    if others := {str(record.target) for record in recorded if record.task.workload in workloads}:
        raise ValueError(
            f"{name} has records of this network for {', '.join(sorted(others))}, none for "
            f"{target}: choose with --target"
        )
    example = f"{task_name(recorded[0].task.name, recorded[0].task.args)} for {recorded[0].target}"
    raise ValueError(
        f"{name} has no successful record of this network: it has "
        f"{pluralize(len(records), 'task')}, such as {example}"
    )


def _compare(
    operator: Operator, tasks: Sequence[Task], logs: Sequence[dict[str, Record]]
) -> OperatorComparison:
    """An operator by the fastest record of each log."""
    keys = [key_of(tasks[i].target, tasks[i]) for i in operator.tasks]
    best = [
        min((log[k] for k in keys if k in log), key=lambda record: seconds(record[1]), default=None)
        for log in logs
    ]
    configurations = {record and (record[0].task.name, str(record[0].config)) for record in best}
    first = next((record[0].task for record in best if record), tasks[operator.tasks[0]])
    return OperatorComparison(
        name=task_name(first.name, first.args),
        count=operator.count,
        best=best,
        latencies=[seconds(record[1]) if record else inf for record in best],
        same=len(configurations) == 1,
    )


def _build_kernel(record: Record, target: tvm.target.Target) -> tuple[Any, list[Array]]:
    """Build the configuration of a record; returns the library, and random tensors for it.

    `target` is the record's, with its host, which a log does not have.
    """
    measured, _ = record
    # otherwise some templates build another program
    with target, patch.object(autotvm.GLOBAL_SCOPE, "in_tuning", True):
        schedule, tensors = measured.task.instantiate(measured.config)
        library = tvm.build(schedule, tensors, target=target)
    return library, random_arrays(tensors)
