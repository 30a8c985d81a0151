"""Layouts of convolutions for which MetaSchedule finds faster schedules."""

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

    Weights that are arguments of the network stay as they are: they would be converted in each run. If Relax cannot convert the
    network, it is returned as it is, with a warning.

    Parameters
    ----------
    mod : tvm.IRModule
        A Relax network with bound weights.
    """
    functions = [function for _, function in mod.functions_items() if isinstance(function, relax.Function)]
    arguments = [variable for function in functions for variable in function.params]

    def desired(call: relax.Call) -> dict[str, list[str]]:
        is_conv2d = getattr(call.op, "name", "") == _CONV2D
        return {_CONV2D: _CHANNELS_LAST} if is_conv2d and not any(map(call.args[1].same_as, arguments)) else {}

    try:
        return relax.transform.ConvertLayout({}, desired)(mod)
    except Exception as error:
        logger.warning("convolutions stay in their layout, since Relax cannot convert the network: %s", last_line(str(error)))
        return mod
