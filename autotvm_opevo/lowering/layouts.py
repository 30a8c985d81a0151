"""Layouts of constant weights for which MetaSchedule finds faster schedules."""

from __future__ import annotations

from contextlib import suppress

import tvm
from tvm import relax
from tvm.s_tir import Schedule, ScheduleError

# Blocks that read a constant in an order for which TVM 0.27 packs it wrongly
# (docs/upstream/tvm-0.27-rewrite-layout.py): the matrices of Winograd's algorithm, whose row
# depends on the remainders of a row and a column of the image.
_NOT_PACKED = "winograd_input", "winograd_output"
# Annotation of a block that packs a weight.
_PACKS = "meta_schedule.layout_rewrite_preproc"


def with_packable_weights(mod: tvm.IRModule) -> tvm.IRModule:
    """Let each schedule of a lowered network choose the layout of constant weights: the order in
    which its tiles read them.

    Measurements have the weights in that layout; `pack_weights` brings them into it.
    """
    # Or TVM would pack weights that are not bound, in each run.
    functions = {
        variable: function.without_attr("num_input")
        if isinstance(function, relax.Function)
        else function
        for variable, function in mod.functions.items()
    }
    mod = tvm.IRModule(functions, attrs=mod.attrs, global_infos=mod.global_infos)
    mod = relax.transform.AttachAttrLayoutFreeBuffers()(mod)
    for variable, function in mod.functions.items():
        if isinstance(function, tvm.tirx.PrimFunc) and any(
            name in block_names(function) for name in _NOT_PACKED
        ):
            mod.update_func(variable, function.without_attr("layout_free_buffers"))
    return mod


def block_names(operator: tvm.tirx.PrimFunc) -> str:
    """Names of the blocks that compute an operator, one per line; empty without a root around them,
    as of a single block.
    """
    schedule = Schedule(operator)
    with suppress(ScheduleError):  # there is no root around a single block
        return "\n".join(
            schedule.get(block).name_hint
            for block in schedule.get_child_blocks(schedule.get_sblock("root"))
        )
    return ""


def pack_weights(mod: tvm.IRModule) -> tvm.IRModule:
    """Bring constant weights into the layouts of the schedules that were applied; they would do it
    themselves, in each run.
    """
    # TVM's pass refuses a module with functions of another form than schedules have, such as that
    # of scatter_elements.
    others = {
        variable: function
        for variable, function in mod.functions.items()
        if isinstance(function, tvm.tirx.PrimFunc) and _PACKS not in function.script()
    }
    rest = {
        variable: function for variable, function in mod.functions.items() if variable not in others
    }
    packed = relax.transform.SplitLayoutRewritePreproc()(
        tvm.IRModule(rest, attrs=mod.attrs, global_infos=mod.global_infos)
    )
    for variable, function in others.items():
        packed[variable] = function
    return relax.transform.FoldConstant()(packed)
