"""The operators of a lowered Relax network, as MetaSchedule's tasks, and the tasks' names."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import tvm
from tvm.s_tir import Schedule
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.meta_schedule.arg_info import ArgInfo

from autotvm_opevo.lowering.network import EVERYTHING, is_known, lower, operators_of
from autotvm_opevo.meta_schedule.database import workload_key
from autotvm_opevo.meta_schedule.store import network_key


def lower_and_extract(
    mod: tvm.IRModule,
    target: tvm.target.Target,
    wrong_operators: Mapping[tuple[str, ...], Collection[str]],
) -> tuple[tvm.IRModule, list[Any], list[str]]:
    """Lower a network, with bound weights, but for the operators that are known to be wrong then;
    see `extract`.

    `wrong_operators` are those of a `TrialStore`.
    """
    lowered = lower(mod, target)
    tasks, untuned = extract(lowered, target)
    if without := wrong_operators.get(key_of(target, tasks)):
        # With other names of variables, none says which operators they are.
        named = {*without} <= {EVERYTHING, *operators_of(mod)}
        lowered = lower(mod, target, without if named else [EVERYTHING])
        tasks, untuned = extract(lowered, target)
    return lowered, tasks, untuned


def key_of(target: tvm.target.Target, tasks: Iterable[Any]) -> tuple[str, ...]:
    """The key of a network, by its tasks."""
    return network_key(target, (workload_key(task.dispatched[0]) for task in tasks))


def extract(lowered: tvm.IRModule, target: tvm.target.Target) -> tuple[list[Any], list[str]]:
    """The tasks of a lowered network, and the names of the operators that have none.

    Those whose shapes or loops are known only in a run, such as what follows ``nonzero``, cannot be
    tuned: a schedule is for one size.

    Examples
    --------
    >>> from autotvm_opevo.lowering.network import lower
    >>> from autotvm_opevo.networks.relax import operator
    >>> target = tvm.target.Target("llvm")
    >>> tasks, untuned = extract(lower(operator("matmul", [(8, 64), (64, 32)])[0], target), target)
    >>> len(tasks), untuned
    (1, [])
    """
    tasks, untuned = [], set()
    for task in ms.relax_integration.extract_tasks(lowered, target):
        if _is_static(task.dispatched[0]):
            tasks.append(task)
        else:
            untuned.add(kind_of(task))
    return tasks, sorted(untuned)


def _is_static(mod: tvm.IRModule) -> bool:
    """Whether all parameters of an operator are tensors of known shapes, and its loops of known
    extents.
    """
    shapes = [getattr(parameter.ty, "shape", None) for parameter in mod["main"].params]
    if not all(shape is not None and all(map(is_known, shape)) for shape in shapes):
        return False
    # which rejects all candidates else
    return bool(ms.postproc.DisallowDynamicLoop().apply(Schedule(mod)))


def kind_of(task: Any) -> str:
    """The operators of a task, without the numbers by which TVM tells functions apart.

    >>> from types import SimpleNamespace
    >>> kind_of(SimpleNamespace(task_name="fused_conv2d1_add2_relu11"))
    'fused_conv2d_add_relu'
    """
    return re.sub(r"(?<=[a-z])\d+(?=_|$)", "", str(task.task_name))


def task_name(task: Any) -> str:
    """The operators of a task and the shapes of its first two tensors, such as an image and the
    weights.
    """
    shapes = [
        "x".join(map(str, tensor.shape)) or "scalar"
        for tensor in ArgInfo.from_prim_func(task.dispatched[0]["main"])[:2]
    ]
    return " ".join([kind_of(task), *shapes])
