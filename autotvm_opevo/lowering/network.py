"""From a Relax network to the functions that are tuned, and from scheduled functions to an
executable.
"""

from __future__ import annotations

import logging
from typing import Any

import tvm
from tvm import relax
from tvm.s_tir import SBlock
from tvm.s_tir import meta_schedule as ms
from tvm.tirx import IterVar

from autotvm_opevo._utils.text import last_line
from autotvm_opevo.lowering.channels_last import with_channels_last
from autotvm_opevo.lowering.concat import mark_concats, write_in_place
from autotvm_opevo.lowering.entry import entry_name
from autotvm_opevo.lowering.fast_math import FAST_MATH
from autotvm_opevo.lowering.rewriting import (
    fold_batch_norms,
    fold_views,
    raise_to_operators,
    with_fields,
    with_statements,
)
from autotvm_opevo.lowering.winograd import legalize_conv2d

logger = logging.getLogger(__name__)

# Operators that are legalized to several calls.
_SEVERAL_CALLS = ("relax.dynamic_strided_slice",)
# The tensors of a function whose layout its schedule may choose: an attribute, and an annotation of
# its blocks.
_FREE, _FREE_OF_BLOCK = "layout_free_buffers", "layout_free_placeholders"
# Annotation of a block that packs a weight.
_PACKS = "meta_schedule.layout_rewrite_preproc"


def lower(
    mod: tvm.IRModule, target: tvm.target.Target, *, as_imported: bool = False
) -> tvm.IRModule:
    """Lower a network to operators, fused as TVM fuses them, in forms that can be scheduled to be
    fast.

    Batch normalizations are folded into what comes before them. For a CPU, convolutions are
    converted to NHWC, and to Winograd's algorithm where that pays; schedules may choose the layout
    of constant weights; exp, tanh and erf become polynomials; concatenations may be made in place,
    by `build`.

    Parameters
    ----------
    mod : tvm.IRModule
        As imported by one of Relax's frontends, its weights bound; see `bind_params`.
    target : tvm.target.Target
    as_imported : bool
        Lower the operators as TVM does it; only the layout of constant weights may be chosen.

    Returns
    -------
    tvm.IRModule
        Its function, such as ``main``, calls the operators, which are its other functions.

    Examples
    --------
    >>> from autotvm_opevo.networks.relax import operator
    >>> lowered = lower(operator("matmul", [(8, 64), (64, 32)])[0], tvm.target.Target("llvm"))
    >>> len(lowered.functions)
    2
    """
    for_cpu = target.kind.name == "llvm"
    try:
        fused = lower_as_imported(mod if as_imported else _convert(mod, for_cpu), target)
    except Exception as error:  # of TVM's passes, or of ours
        if as_imported:
            raise
        logger.warning(
            "the network is tuned as TVM lowers it, since it cannot be lowered otherwise: %s",
            last_line(str(error)),
        )
        fused = lower_as_imported(mod, target)
    return with_packable_weights(fused) if for_cpu else fused


def _convert(mod: tvm.IRModule, for_cpu: bool) -> tvm.IRModule:
    """Convert operators to forms that can be scheduled to be fast."""
    # Constants are folded first, or what is computed from others would not be found.
    folded = _fold(mod)
    if not for_cpu:
        return fold_batch_norms(folded)
    raised = fold_batch_norms(raise_to_operators(folded))
    converted = _fold(with_channels_last(raised))
    rules = {"relax.nn.conv2d": legalize_conv2d, **FAST_MATH}
    return relax.transform.LegalizeOps(rules)(mark_concats(converted))


def check_shapes(mod: tvm.IRModule) -> None:
    """Raise `ValueError` if an input has a shape that is not known: TVM cannot tune for it."""
    variables = mod[entry_name(mod)].params
    unknown = [variable for variable in variables if not all(map(is_known, _extents(variable.ty)))]
    if not unknown:
        return
    extents = [extent for variable in unknown for extent in _extents(variable.ty)]
    symbols = {str(extent.name): 1 for extent in extents if isinstance(extent, tvm.tirx.Var)}
    what_to_do = "give it a shape when it is imported"
    if symbols:
        bind = f"relax.transform.BindSymbolicVars({symbols})(mod)"
        what_to_do = f"bind them to the size that is run, with {bind}"
    raise ValueError(
        f"mod must have inputs of known shapes, {unknown[0].name} is {unknown[0].ty}: {what_to_do}"
    )


def _extents(kind: tvm.ir.Type) -> list[Any]:
    """All extents of an input; a None if not even their number is known."""
    if isinstance(kind, tvm.ir.TupleType):
        return [extent for field in kind.fields for extent in _extents(field)]
    if isinstance(kind, relax.ShapeType):
        return [None] if kind.values is None else list(kind.values)
    if isinstance(kind, relax.TensorType):
        return list(kind.shape.values) if isinstance(kind.shape, relax.ShapeExpr) else [None]
    return []


def is_known(extent: Any) -> bool:
    """Whether an extent is a number, and no symbol."""
    return isinstance(extent, (int, tvm.tirx.IntImm))


def lower_as_imported(mod: tvm.IRModule, target: tvm.target.Target) -> tvm.IRModule:
    """Lower a network as TVM does: layouts stay, convolutions are direct, and exp, tanh and erf
    call the C library.
    """
    with target:
        return relax.get_pipeline("zero")(mod)


def _fold(mod: tvm.IRModule) -> tvm.IRModule:
    """Fold constants before operators are legalized.

    TVM 0.27 legalizes an operator to see whether it can be folded. Of those that become several
    calls, all but the last stay in the network, and call functions that do not.
    """
    operators = [name for name in tvm.ir.Op.list_op_names() if name.startswith("relax.")]
    others = [name for name in operators if name not in _SEVERAL_CALLS]
    legalized = relax.transform.LegalizeOps(skip_ops=others)(fold_views(mod))
    return relax.transform.FoldConstant()(legalized)


def with_packable_weights(mod: tvm.IRModule) -> tvm.IRModule:
    """Let each schedule of a lowered network choose the layout of constant weights: the order in
    which its tiles read them.

    Measurements have the weights in that layout; `pack_weights` brings them into it.
    """
    # Or TVM would pack weights that are not bound, in each run.
    mod = mod.clone()
    for variable, function in mod.functions_items():
        if isinstance(function, relax.Function):
            mod.update_func(variable, function.without_attr("num_input"))
    mod = relax.transform.AttachAttrLayoutFreeBuffers()(mod)
    for variable, function in mod.functions.items():
        if isinstance(function, tvm.tirx.PrimFunc):
            mod.update_func(variable, _with_packable_weights(function))
    return mod


def _with_packable_weights(function: tvm.tirx.PrimFunc) -> tvm.tirx.PrimFunc:
    """An operator whose schedules choose the layout of those constants only which TVM packs right:
    the weights of convolutions and matrix products.

    TVM 0.27 packs a constant by the loops around one place that reads it. It loses what is read in
    another order, or not by these loops (docs/upstream/tvm-0.27-rewrite-layout*.py). Its operators
    name tensors that may be packed, too, which need not be constant.
    """
    blocks = []

    def without_annotation(node: Any) -> Any:
        if isinstance(node, SBlock):
            names = {name: one for name, one in node.annotations.items() if name != _FREE_OF_BLOCK}
            node = with_fields(node, annotations=names)
            blocks.append(node)
        return node

    function = function.with_body(with_statements(function.body, without_annotation))
    constants = (function.attrs or {}).get(_FREE, ())
    reads = [(block, read) for block in blocks for read in block.reads]
    weights = []
    for constant in constants:
        own = [pair for pair in reads if pair[1].source.same_as(function.params[int(constant)])]
        if len(own) == 1 and _multiplies_all(*own[0]):
            weights.append(constant)
    return function.with_attr(_FREE, weights) if weights else function.without_attr(_FREE)


def _multiplies_all(block: SBlock, read: Any) -> bool:
    """Whether a block reads each element of a tensor by loops over its axes, and sums."""
    left = list(block.iter_vars)
    for extent, span in zip(read.source.shape, read.region):
        if _is(extent, 1):
            continue
        loop = next((one for one in left if one.var.same_as(span.min)), None)
        if loop is None or not _is(span.extent, 1) or not _is(extent, loop.dom.extent):
            return False
        left = [one for one in left if not one.same_as(loop)]
    return any(one.iter_type == IterVar.CommReduce for one in block.iter_vars)


def _is(extent: Any, other: Any) -> bool:
    """Whether two extents are the same number."""
    return is_known(extent) and is_known(other) and int(extent) == int(other)


def build(
    mod: tvm.IRModule, target: tvm.target.Target, database: ms.database.Database | None = None
) -> Any:
    """Build a lowered network with the best schedules of a database, or untuned."""
    # Not with TVM's compile_relax: it fuses operators once more, and the database's schedules no
    # longer apply.
    database = ms.database.MemoryDatabase() if database is None else database
    with target, database, tvm.transform.PassContext(opt_level=3):
        packed = pack_weights(relax.transform.MetaScheduleApplyDatabase()(mod))
        return tvm.compile(write_in_place(packed), target)


def pack_weights(mod: tvm.IRModule) -> tvm.IRModule:
    """Bring constant weights into the layouts of schedules, which would do it in each run."""
    # TVM's pass refuses a module with functions of another form than schedules have, such as that
    # of scatter_elements.
    rest: dict[Any, Any] = {}
    others: dict[Any, Any] = {}
    for variable, function in mod.functions.items():
        is_other = isinstance(function, tvm.tirx.PrimFunc) and _PACKS not in function.script()
        (others if is_other else rest)[variable] = function
    packed = relax.transform.SplitLayoutRewritePreproc()(
        tvm.IRModule(rest, attrs=mod.attrs, global_infos=mod.global_infos)
    )
    for variable, function in others.items():
        packed[variable] = function
    return relax.transform.FoldConstant()(packed)
