"""Functions that Relax's ONNX importer has lowered already, of Clip and Pad: as operators again,
which follow an image's layout.

Otherwise each convolution of a MobileNet would be followed by a function that transposes its image
twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import tvm
from tvm import relax, topi
from tvm_ffi import structural_equal

from autotvm_opevo.lowering.block_rewriter import BlockRewriter, static_shape

_CALL_TIR = tvm.ir.Op.get("relax.call_tir")
_BOUNDS = {
    tvm.tirx.Max: (topi.maximum, relax.op.maximum),
    tvm.tirx.Min: (topi.minimum, relax.op.minimum),
}
# A function of TVM's operator library, its arguments, and the operator that computes the same.
_Candidate = tuple[Callable[..., Any], list[Any], Any]


def raise_to_operators(mod: tvm.IRModule) -> tvm.IRModule:
    """Replace calls of functions that TVM's operator library makes of a bound or a padding by
    operators that become the same.

    Examples
    --------
    >>> x = relax.Var("x", relax.TensorType((2, 3), "float32"))
    >>> builder = relax.BlockBuilder()
    >>> with builder.function("main", [x]):
    ...     with builder.dataflow():
    ...         y = builder.emit_output(builder.call_te(topi.maximum, x, 0.0))
    ...     _ = builder.emit_func_output(y)
    >>> [block] = raise_to_operators(builder.finalize())["main"].body.blocks
    >>> block.bindings[0].value.op.name
    'relax.maximum'
    """
    return _Raising.apply(mod)


class _Raising(BlockRewriter):
    def _rewrite(self, var: Any, call: Any) -> Any:
        """An operator that computes what a call does; None if none is known."""
        if (
            not isinstance(call, relax.Call)
            or call.op != _CALL_TIR
            or not getattr(call.args[1], "fields", None)
        ):
            return None
        function, tensors = self._mod[call.args[0]], list(call.args[1].fields)
        stored = _stored(function)
        for compute, arguments, operator in (
            *_bounds(stored, tensors),
            *_pads(stored, tensors, call),
        ):
            builder = relax.BlockBuilder()
            same = builder.call_te(compute, *arguments)
            if structural_equal(builder.get()[same.args[0]], function):
                return operator
        return None


def _stored(function: Any) -> Any:
    """What a function of a single loop nest stores; None if it is none."""
    node = function.body
    while node is not None and not isinstance(node, tvm.tirx.BufferStore):
        node = getattr(node, "block", None) or getattr(node, "body", None)
    return node and node.value


def _bounds(stored: Any, tensors: list[Any]) -> Iterator[_Candidate]:
    """The larger or smaller of two tensors, or of one and a number."""
    compute, operator = _BOUNDS.get(type(stored), (None, None))
    if compute is None or operator is None:
        return
    x, *others = tensors
    if others:
        yield compute, [x, others[0]], operator(x, others[0])
    elif (bound := getattr(stored.b, "value", None)) is not None:
        yield compute, [x, bound], operator(x, relax.const(bound, str(x.ty.dtype)))


def _pads(stored: Any, tensors: list[Any], call: Any) -> Iterator[_Candidate]:
    """Paddings: as wide at the start of each axis as at its end, or wider by one at all starts or
    all ends where that is odd.
    """
    x, extents, padded = tensors[0], static_shape(tensors[0]), static_shape(call)
    if (
        len(tensors) > 1
        or extents is None
        or padded is None
        or len(extents) != len(padded)
        or extents == padded
    ):
        return
    totals = [after - before for before, after in zip(extents, padded)]
    if min(totals) < 0:
        return
    number = _otherwise(stored)
    for wider in (0, 1):
        before = [(total + wider) // 2 for total in totals]
        after = [total - start for total, start in zip(totals, before)]
        width = [n for both in zip(before, after) for n in both]
        yield topi.nn.pad, [x, before, after, number], relax.op.nn.pad(x, width, "constant", number)
        yield (
            topi.nn.mirror_pad,
            [x, before, after, "REFLECT"],
            relax.op.nn.pad(x, width, "reflect"),
        )
        yield topi.nn.replicate_pad, [x, before, after], relax.op.nn.pad(x, width, "replicate")
        yield topi.nn.circular_pad, [x, before, after], relax.op.nn.pad(x, width, "circular")


def _otherwise(stored: Any) -> float:
    """The number that is stored outside of a tensor that is padded."""
    is_conditional = isinstance(stored, tvm.ir.Call) and len(stored.args) == 3
    number = stored.args[2] if is_conditional else None
    return float(number.value) if isinstance(number, (tvm.tirx.IntImm, tvm.tirx.FloatImm)) else 0.0
