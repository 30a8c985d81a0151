"""Layouts for which MetaSchedule finds faster schedules: of convolutions, and of the weights of all operators."""

from __future__ import annotations

import logging

import tvm
from tvm import relax

from autotvm_opevo._utils.text import last_line

logger = logging.getLogger(__name__)

# Of the image and of the weights. The innermost loop is over output channels, in which results and weights are contiguous.
_CONV2D, _CHANNELS_LAST = "relax.nn.conv2d", ["NHWC", "HWIO"]


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
    main = mod["main"]
    if main.attrs and "num_input" in main.attrs:  # or TVM would pack weights that are not bound, in each run
        mod = tvm.IRModule({**mod.functions, mod.get_global_var("main"): main.without_attr("num_input")}, attrs=mod.attrs)
    return relax.transform.AttachAttrLayoutFreeBuffers()(mod)


def pack_weights(mod: tvm.IRModule) -> tvm.IRModule:
    """Bring constant weights into the layouts of the schedules that were applied; they would do it themselves, in each run."""
    return relax.transform.FoldConstant()(relax.transform.SplitLayoutRewritePreproc()(mod))
