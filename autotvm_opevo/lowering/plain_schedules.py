"""Schedules that are quick to find and to compile, and fast enough to run a network once: loops
over memory innermost.
"""

from __future__ import annotations

from typing import Any

import tvm
from tvm.s_tir import Schedule, ScheduleError

from autotvm_opevo.lowering.network import is_known

_SPATIAL, _REDUCTION = tvm.tirx.IterVar.DataPar, tvm.tirx.IterVar.CommReduce
# The most elements of a row that are computed together: some vectors, whose sums stay in a cache.
_MAX_TILE = 64


def with_plain_schedules(mod: tvm.IRModule) -> tvm.IRModule:
    """Schedule the functions of a lowered network for a CPU, all in the same way.

    TVM leaves them as loop nests in one thread, whose innermost loop is a reduction, which cannot
    be vectorized: AlexNet runs for seconds, with these schedules for a tenth of a second.

    Examples
    --------
    >>> from autotvm_opevo.lowering.network import lower
    >>> from autotvm_opevo.networks.relax import operator
    >>> lowered = lower(operator("matmul", [(8, 64), (64, 32)])[0], tvm.target.Target("llvm"))
    >>> "T.parallel" in with_plain_schedules(lowered).script()
    True
    """
    mod = mod.clone()
    for variable, function in mod.functions_items():
        if isinstance(function, tvm.tirx.PrimFunc):
            mod.update_func(variable, _scheduled(function))
    return mod


def _scheduled(function: tvm.tirx.PrimFunc) -> tvm.tirx.PrimFunc:
    """The function as it is if it has another form than TVM's operators mostly have."""
    schedule = Schedule(function)
    try:
        for block in schedule.get_child_blocks(schedule.get_sblock("root")):
            _schedule_block(schedule, block)
    except ScheduleError:
        return function
    scheduled = schedule.mod["main"]
    return scheduled.with_attrs(function.attrs) if function.attrs else scheduled


def _schedule_block(schedule: Schedule, block: Any) -> None:
    """Reduce for the elements of a row together; the rows are computed in parallel."""
    loops = schedule.get_loops(block)
    kinds = [variable.iter_type for variable in schedule.get(block).iter_vars]
    spatial = [loop for loop, kind in zip(loops, kinds) if kind == _SPATIAL]
    reduction = [loop for loop, kind in zip(loops, kinds) if kind == _REDUCTION]
    if len(loops) != len(kinds) or len(spatial) + len(reduction) != len(loops) or not spatial:
        return
    if not all(is_known(schedule.get(loop).extent) for loop in loops):
        return
    extents = [int(schedule.get(loop).extent) for loop in spatial]
    row = max(i for i, extent in enumerate(extents) if extent > 1 or i == 0)
    tile = max(n for n in range(1, _MAX_TILE + 1) if extents[row] % n == 0)
    outer, inner = schedule.split(spatial.pop(row), [None, tile])
    schedule.reorder(*spatial, outer, *reduction, inner)
    schedule.parallel(schedule.fuse(*spatial, outer))
    if reduction:
        schedule.decompose_reduction(block, reduction[0])
