"""Layouts for which MetaSchedule finds faster schedules: of convolutions, and of the weights of all operators."""

from __future__ import annotations

import logging
from contextlib import suppress

import tvm
from tvm import relax
from tvm.s_tir import Schedule, ScheduleError

from autotvm_opevo._utils.text import last_line

logger = logging.getLogger(__name__)

# Of the image and of the weights. The innermost loop is over output channels, in which results and weights are contiguous.
_CONV2D, _CHANNELS_LAST = "relax.nn.conv2d", ["NHWC", "HWIO"]
# Blocks that read a constant in an order for which TVM 0.27 packs it wrongly (docs/upstream/tvm-0.27-rewrite-layout.py): the
# matrices of Winograd's algorithm, whose row depends on the remainders of a row and a column of the image.
_NOT_PACKED = "winograd_input", "winograd_output"


def with_channels_last(mod: tvm.IRModule) -> tvm.IRModule:
    """Convert two-dimensional convolutions to NHWC, and what lies between them where Relax can.

    Only constant weights are converted: others would be in each run. If Relax cannot convert the network, it is returned as
    it is, with a warning.

    Parameters
    ----------
    mod : tvm.IRModule
        A Relax network with bound weights.
    """

    def desired(call: relax.Call) -> dict[str, list[str]]:
        convertible = getattr(call.op, "name", "") == _CONV2D and isinstance(call.args[1], tvm.ir.Constant)
        return {_CONV2D: _CHANNELS_LAST} if convertible else {}

    try:
        return relax.transform.ConvertLayout({}, desired)(mod)
    except Exception as error:
        logger.warning("convolutions stay in their layout, since Relax cannot convert the network: %s", last_line(str(error)))
        return mod


def with_packable_weights(mod: tvm.IRModule) -> tvm.IRModule:
    """Let each schedule of a lowered network choose the layout of constant weights: the order in which its tiles read them.

    Measurements have the weights in that layout; `pack_weights` brings them into it.
    """
    # Or TVM would pack weights that are not bound, in each run.
    functions = {
        variable: function.without_attr("num_input") if isinstance(function, relax.Function) else function
        for variable, function in mod.functions.items()
    }
    mod = tvm.IRModule(functions, attrs=mod.attrs, global_infos=mod.global_infos)
    mod = relax.transform.AttachAttrLayoutFreeBuffers()(mod)
    for variable, function in mod.functions.items():
        if isinstance(function, tvm.tirx.PrimFunc) and any(name in block_names(function) for name in _NOT_PACKED):
            mod.update_func(variable, function.without_attr("layout_free_buffers"))
    return mod


def block_names(operator: tvm.tirx.PrimFunc) -> str:
    """Names of the blocks that compute an operator, one per line; empty without a root around them, as of a single block."""
    schedule = Schedule(operator)
    with suppress(ScheduleError):  # there is no root around a single block
        return "\n".join(schedule.get(block).name_hint for block in schedule.get_child_blocks(schedule.get_sblock("root")))
    return ""


def pack_weights(mod: tvm.IRModule) -> tvm.IRModule:
    """Bring constant weights into the layouts of the schedules that were applied; they would do it themselves, in each run."""
    return relax.transform.FoldConstant()(relax.transform.SplitLayoutRewritePreproc()(mod))
