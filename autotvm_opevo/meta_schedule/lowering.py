"""Earlier names of `autotvm_opevo.lowering.network` and `compilation`, with the arguments that they
had, which scripts import.
"""

from __future__ import annotations

from typing import Any

import tvm

from autotvm_opevo.lowering import network
from autotvm_opevo.lowering.entry import bind_params
from autotvm_opevo.lowering.network import build, check_shapes
from autotvm_opevo.meta_schedule.compilation import compile_network, lower_for_tuning
from autotvm_opevo.meta_schedule.targets import as_target

__all__ = [
    "build",
    "check_shapes",
    "compile_network",
    "count_changes",
    "lower_as_imported",
    "lower_for_tuning",
]


def lower_as_imported(mod: tvm.IRModule, params: Any, target: Any) -> tvm.IRModule:
    """Lower a network as TVM does; the arguments are those of `lower_for_tuning`."""
    return network.lower_as_imported(bind_params(mod, params), as_target(target))


def count_changes(lowered: tvm.IRModule) -> dict[str, int]:
    """Number of operators with a convolution in NHWC, ``"nhwc"``, of a lowered network."""
    functions = [f for f in lowered.functions.values() if isinstance(f, tvm.tirx.PrimFunc)]
    return {"nhwc": sum("conv2d_nhwc" in function.script() for function in functions)}
