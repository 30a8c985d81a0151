"""Bounds that Relax's ONNX importer has lowered already, of Clip: as operators again, whose layout follows that of an image.

Otherwise each convolution of a MobileNet would be followed by a function that transposes its image twice.
"""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relax, topi
from tvm_ffi import structural_equal

from autotvm_opevo.lowering.block_rewriter import BlockRewriter

_CALL_TIR = tvm.ir.Op.get("relax.call_tir")
_BOUNDS = {tvm.tirx.Max: (topi.maximum, relax.op.maximum), tvm.tirx.Min: (topi.minimum, relax.op.minimum)}


def with_clips_as_operators(mod: tvm.IRModule) -> tvm.IRModule:
    """Replace calls of functions that TVM's operator library makes of a maximum or a minimum by operators that become the same.

    Examples
    --------
    >>> x = relax.Var("x", relax.TensorType((2, 3), "float32"))
    >>> builder = relax.BlockBuilder()
    >>> with builder.function("main", [x]):
    ...     with builder.dataflow():
    ...         y = builder.emit_output(builder.call_te(topi.maximum, x, 0.0))
    ...     _ = builder.emit_func_output(y)
    >>> [block] = with_clips_as_operators(builder.finalize())["main"].body.blocks
    >>> block.bindings[0].value.op.name
    'relax.maximum'
    """
    return _ClipRewriter.apply(mod)


class _ClipRewriter(BlockRewriter):
    def _rewrite(self, var: Any, call: Any) -> Any:
        """A maximum or minimum that computes what a call does; None if it does something else."""
        if not isinstance(call, relax.Call) or call.op != _CALL_TIR or not getattr(call.args[1], "fields", None):
            return None
        function, (x, *others) = self._mod[call.args[0]], call.args[1].fields
        stored = _stored(function)
        compute, operator = _BOUNDS.get(type(stored), (None, None))
        bound = others[0] if others else getattr(getattr(stored, "b", None), "value", None)
        if compute is None or bound is None:
            return None
        builder = relax.BlockBuilder()
        same = builder.call_te(compute, x, bound)
        if not structural_equal(builder.get()[same.args[0]], function):
            return None
        return operator(x, bound if others else relax.const(bound, str(x.ty.dtype)))


def _stored(function: Any) -> Any:
    """What a function of a single loop nest stores; None if it is none."""
    node = function.body
    while node is not None and not isinstance(node, tvm.tirx.BufferStore):
        node = getattr(node, "block", None) or getattr(node, "body", None)
    return node and node.value
