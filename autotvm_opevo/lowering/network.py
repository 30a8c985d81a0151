"""From a Relax network to the functions that are tuned, and from scheduled functions to an executable."""

from __future__ import annotations

import logging
from typing import Any

import tvm
from tvm import relax
from tvm.s_tir import meta_schedule as ms

from autotvm_opevo._utils.text import last_line
from autotvm_opevo.lowering.channels_last import with_channels_last
from autotvm_opevo.lowering.fast_math import FAST_MATH
from autotvm_opevo.lowering.layouts import block_names, pack_weights, with_packable_weights
from autotvm_opevo.lowering.winograd import legalize_conv2d

logger = logging.getLogger(__name__)


def lower(mod: tvm.IRModule, params: dict[str, tvm.runtime.Tensor] | None, target: tvm.target.Target) -> tvm.IRModule:
    """Bind a network's weights and lower it to operators, fused as TVM fuses them, in forms that can be scheduled to be fast.

    For a CPU, convolutions are converted to NHWC, and to Winograd's algorithm where that pays; schedules may choose the
    layout of constant weights; exp, tanh and erf become polynomials.

    Parameters
    ----------
    mod : tvm.IRModule
        As imported by one of Relax's frontends.
    params : dict, optional
        Its weights, by name.
    target : tvm.target.Target

    Returns
    -------
    tvm.IRModule
        Its function ``main`` calls the operators, which are its other functions.

    Examples
    --------
    >>> from autotvm_opevo.networks.relax import operator
    >>> lowered = lower(*operator("matmul", [(8, 64), (64, 32)]), tvm.target.Target("llvm"))
    >>> len(lowered.functions)
    2
    """
    mod = _bind(mod, params)
    if target.kind.name != "llvm":
        return _fuse(mod, target)
    try:
        # Constants are folded first, or weights that are computed from others would not be found.
        converted = _fold(with_channels_last(_fold(mod)))
        legalized = relax.transform.LegalizeOps({"relax.nn.conv2d": legalize_conv2d, **FAST_MATH})(converted)
        fused = _fuse(legalized, target)
    except Exception as error:  # of TVM's passes, or of ours
        logger.warning("the network is tuned as TVM lowers it, since it cannot be lowered otherwise: %s", last_line(str(error)))
        fused = _fuse(mod, target)
    return with_packable_weights(fused)


def check_shapes(mod: tvm.IRModule) -> None:
    """Raise `ValueError` if an input of a network has a shape that is not known: TVM cannot tune for it."""
    for variable in mod["main"].params:
        shape = getattr(variable.ty, "shape", ())
        if shape is None or any(not isinstance(extent, (int, tvm.tirx.IntImm)) for extent in shape):
            raise ValueError(
                f"mod must have inputs of known shapes, {variable.name} is {variable.ty}: set them, with "
                "relax.transform.BindSymbolicVars"
            )


def count_changes(lowered: tvm.IRModule) -> dict[str, int]:
    """Number of operators that `lower` changed.

    Returns
    -------
    dict of str to int
        ``"nhwc"``, convolutions in NHWC; ``"packed"``, operators whose schedules may pack constant weights; ``"winograd"``,
        convolutions by Winograd's algorithm; ``"fast_math"``, operators with polynomials.
    """
    operators = [function for function in lowered.functions.values() if isinstance(function, tvm.tirx.PrimFunc)]
    blocks = [block_names(operator) for operator in operators]
    return {
        "nhwc": sum("conv2d_nhwc" in names for names in blocks),
        "packed": sum(bool(operator.attrs and operator.attrs.get("layout_free_buffers")) for operator in operators),
        "winograd": sum("winograd_output" in names for names in blocks),
        "fast_math": sum("T_fast_" in names for names in blocks),
    }


def lower_as_imported(mod: tvm.IRModule, params: dict[str, tvm.runtime.Tensor] | None, target: tvm.target.Target) -> tvm.IRModule:
    """Lower a network as TVM does: layouts stay, convolutions are direct, and exp, tanh and erf call the C library."""
    return _fuse(_bind(mod, params), target)


def _bind(mod: tvm.IRModule, params: dict[str, tvm.runtime.Tensor] | None) -> tvm.IRModule:
    return relax.transform.BindParams("main", params)(mod) if params else mod


def _fold(mod: tvm.IRModule) -> tvm.IRModule:
    """Fold constants, unless TVM's pass leaves calls of functions that do not exist, as of ``dynamic_strided_slice``."""
    folded = relax.transform.FoldConstant()(mod)
    missing = []

    def visit(node: Any) -> None:
        if isinstance(node, tvm.ir.GlobalVar) and node not in folded.functions:
            missing.append(node)

    for function in folded.functions.values():
        if isinstance(function, relax.Function):
            relax.analysis.post_order_visit(function, visit)
    return mod if missing else folded


def _fuse(mod: tvm.IRModule, target: tvm.target.Target) -> tvm.IRModule:
    with target:
        return relax.get_pipeline("zero")(mod)


def build(mod: tvm.IRModule, target: tvm.target.Target, database: ms.database.Database | None = None) -> Any:
    """Build a lowered network with the best schedules of a database, or untuned."""
    # Not with TVM's compile_relax: it fuses operators once more, and the database's schedules no longer apply.
    with target, database or ms.database.MemoryDatabase(), tvm.transform.PassContext(opt_level=3):
        return tvm.compile(pack_weights(relax.transform.MetaScheduleApplyDatabase()(mod)), target)
