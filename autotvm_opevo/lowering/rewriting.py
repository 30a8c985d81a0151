"""Rewriting of a Relax network's dataflow blocks, in which its operators are: batch normalizations
and views of constants are folded, and what an importer has lowered already becomes operators again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tvm
from tvm import relax, topi
from tvm.ir import Array, Expr, GlobalVar, Op, Range, Var
from tvm.s_tir.stmt import MatchBufferRegion
from tvm.tirx import IterVar, SeqStmt, Stmt
from tvm_ffi import structural_equal

_BOUNDS = {
    tvm.tirx.Max: (topi.maximum, relax.op.maximum),
    tvm.tirx.Min: (topi.minimum, relax.op.minimum),
}
CONVOLUTIONS = {"nn.conv1d", "nn.conv2d", "nn.conv3d"}
# Of views; others, such as bfloat16, which numpy lacks, are left to TVM.
_VIEWED = ("float32", "float64", "float16", "int8", "uint8", "int16", "int32", "int64", "bool")
# Scaled weights could leave the range of smaller ones.
_SCALABLE = ("float32", "float64")
# A function of TVM's operator library, its arguments, and the operator that computes the same.
_Candidate = tuple[Callable[..., Any], list[Any], Any]


class BlockRewriter(ABC):
    """Rewrites a dataflow block of a module. Its variables stay, with other values."""

    def __init__(self, block: Any, mod: tvm.IRModule) -> None:
        self._mod = mod
        self._builder = relax.BlockBuilder()
        self._bindings: list[Any] = []
        # as they were, by variable, and how often the block reads each; a cast changes its type
        self._values = {
            binding.var: binding.value
            for binding in block.bindings
            if isinstance(binding, relax.VarBinding)
        }
        self._reads = Counter(x for binding in block.bindings for x in variables_in(binding.value))

    @classmethod
    def apply(cls, mod: tvm.IRModule) -> tvm.IRModule:
        """A module with all blocks rewritten."""

        def rewrite(block: Any, mod: tvm.IRModule, context: Any) -> Any:
            self = cls(block, mod)
            for binding in block.bindings:
                if isinstance(binding, relax.VarBinding):
                    value = self._rewrite(binding.var, binding.value)
                    if value is not None:
                        value = self._builder.normalize(value)
                        binding = relax.VarBinding(binding.var, value)
                self._bindings.append(binding)
            return relax.DataflowBlock(self._bindings)

        return relax.transform.dataflowblock_pass(rewrite, opt_level=0)(mod)

    @abstractmethod
    def _rewrite(self, var: Any, value: Any) -> Any:
        """Another value of a variable; None if it keeps its own."""

    def _value(self, var: Any) -> Any:
        """The value that a variable had; None if it is not of this block."""
        return self._values.get(var)

    def _emit(self, value: Any) -> Any:
        """A new variable, before the one that is rewritten."""
        value = self._builder.normalize(value)
        var = relax.DataflowVar("lowered", value.ty)
        self._bindings.append(relax.VarBinding(var, value))
        return var


def static_shape(tensor: Any) -> list[int] | None:
    """The extents of a tensor; None if one of them is not known.

    >>> static_shape(relax.Var("x", relax.TensorType((2, 3), "float32")))
    [2, 3]
    >>> static_shape(relax.Var("x", relax.TensorType((2, tvm.tirx.Var("n", "int64")), "float32")))
    """
    shape = tensor.ty.shape if isinstance(tensor.ty, relax.TensorType) else None
    if not isinstance(shape, relax.ShapeExpr) or not all(
        isinstance(extent, tvm.tirx.IntImm) for extent in shape
    ):
        return None
    return [int(extent) for extent in shape]


def operator_name(value: Any) -> str:
    """The name of the operator of Relax that a value calls; empty if it calls none.

    >>> operator_name(relax.op.abs(relax.Var("x", relax.TensorType((2, 3), "float32"))))
    'abs'
    """
    operator = getattr(value, "op", None)
    return str(operator.name).removeprefix("relax.") if isinstance(operator, tvm.ir.Op) else ""


def variables_in(value: Any) -> list[Any]:
    """The variables that a value reads."""
    nodes: list[Any] = []
    relax.analysis.post_order_visit(value, nodes.append)
    return [node for node in nodes if isinstance(node, relax.Var)]


def fields_of(node: Any) -> dict[str, Any]:
    """The fields of a node of TVM's, of any kind, by name."""
    fields, kind = {}, type(node).__tvm_ffi_type_info__
    while kind is not None:  # those of its bases, too
        fields.update({field.name: getattr(node, field.name) for field in kind.fields})
        kind = kind.parent_type_info
    return fields


def with_fields(node: Any, /, **changed: Any) -> Any:
    """A node of TVM's, of any kind, with some of its fields changed."""
    key = type(node).__tvm_ffi_type_info__.type_key
    return tvm.ir.make_node(key, **{**fields_of(node), **changed})


def transformed(node: Any, change: Callable[[Any], Any]) -> Any:
    """A statement or an expression of TIR with all its nodes changed, the innermost first."""
    if isinstance(node, Array):
        return [transformed(child, change) for child in node]
    if isinstance(node, Var):
        return change(node)
    is_inner = isinstance(node, (Stmt, Expr, Range, IterVar, MatchBufferRegion))
    if not is_inner or isinstance(node, (Op, GlobalVar)):
        return node
    fields = {name: transformed(field, change) for name, field in fields_of(node).items()}
    return change(with_fields(node, **fields))


def with_statements(node: Any, change: Callable[[Any], Any]) -> Any:
    """A statement of TIR with the statements in it changed, the innermost first; expressions, which
    may be nested deeper than Python's calls, stay.
    """
    if isinstance(node, Array):
        return [with_statements(child, change) for child in node]
    if not isinstance(node, Stmt):
        return node
    inner = {
        name: with_statements(field, change)
        for name, field in fields_of(node).items()
        if isinstance(field, Stmt) or (isinstance(field, Array) and isinstance(node, SeqStmt))
    }
    return change(with_fields(node, **inner) if inner else node)


def calls_in(mod: tvm.IRModule) -> list[Any]:
    """The calls in all functions of a network."""
    nodes: list[Any] = []
    for function in mod.functions.values():
        if isinstance(function, relax.Function):
            relax.analysis.post_order_visit(function, nodes.append)
    return [node for node in nodes if isinstance(node, relax.Call)]


def raise_to_operators(mod: tvm.IRModule) -> tvm.IRModule:
    """Replace calls of functions that TVM's operator library makes of a bound or a padding by
    operators that become the same.

    Relax's ONNX importer has lowered Clip and Pad already. Without operators, which follow an
    image's layout, a function that transposes its image twice would follow each convolution of a
    MobileNet.
    """
    return _Raising.apply(mod)


class _Raising(BlockRewriter):
    def _rewrite(self, var: Any, call: Any) -> Any:
        """An operator that computes what a call does; None if none is known."""
        if operator_name(call) != "call_tir" or not getattr(call.args[1], "fields", None):
            return None
        function, tensors = self._mod[call.args[0]], list(call.args[1].fields)
        stored = function.body  # by the innermost of its loops, if it has a single loop nest
        while stored is not None and not isinstance(stored, tvm.tirx.BufferStore):
            stored = getattr(stored, "block", None) or getattr(stored, "body", None)
        value = stored and stored.value
        for compute, arguments, operator in (
            *_bounds(value, tensors),
            *_pads(value, tensors, call),
        ):
            builder = relax.BlockBuilder()
            same = builder.call_te(compute, *arguments)
            if structural_equal(builder.get()[same.args[0]], function):
                return operator
        return None


def _bounds(stored: Any, tensors: list[Any]) -> Iterator[_Candidate]:
    """The larger or smaller of two tensors, or of one and a number."""
    if type(stored) not in _BOUNDS:
        return
    compute, operator = _BOUNDS[type(stored)]
    x, *others = tensors
    if others:
        yield compute, [x, others[0]], operator(x, others[0])
    elif (bound := getattr(stored.b, "value", None)) is not None:
        yield compute, [x, bound], operator(x, relax.const(bound, str(x.ty.dtype)))


def _pads(stored: Any, tensors: list[Any], call: Any) -> Iterator[_Candidate]:
    """Paddings: as wide at the start of each axis as at its end, or wider by one at all starts or
    all ends where that is odd.
    """
    (x, *others), extents, padded = tensors, static_shape(tensors[0]), static_shape(call)
    if others or not extents or not padded or len(extents) != len(padded) or extents == padded:
        return
    totals = [after - before for before, after in zip(extents, padded)]
    if min(totals) < 0:
        return
    is_conditional = isinstance(stored, tvm.ir.Call) and len(stored.args) == 3
    number = getattr(stored.args[2], "value", 0.0) if is_conditional else 0.0
    number = float(number) if isinstance(number, (int, float)) else 0.0  # stored outside of x
    pad = relax.op.nn.pad
    for wider in (0, 1):
        before = [(total + wider) // 2 for total in totals]
        after = [total - start for total, start in zip(totals, before)]
        width = [n for both in zip(before, after) for n in both]
        yield topi.nn.pad, [x, before, after, number], pad(x, width, "constant", number)
        yield topi.nn.mirror_pad, [x, before, after, "REFLECT"], pad(x, width, "reflect")
        yield topi.nn.replicate_pad, [x, before, after], pad(x, width, "replicate")
        yield topi.nn.circular_pad, [x, before, after], pad(x, width, "circular")


def fold_views(mod: tvm.IRModule) -> tvm.IRModule:
    """Compute reshaped and transposed constants, such as the biases of convolutions.

    TVM's pass compiles a function for each: seconds for a network with many.
    """
    return _Viewing.apply(mod)


class _Viewing(BlockRewriter):
    def _rewrite(self, var: Any, call: Any) -> Any:
        """A constant in another shape or order of axes; None for all else."""
        name, shape = operator_name(call), static_shape(var)
        if name not in ("reshape", "permute_dims") or not isinstance(call.args[0], tvm.ir.Constant):
            return None
        if shape is None or str(var.ty.dtype) not in _VIEWED:
            return None
        array = call.args[0].value.numpy()
        if name == "reshape":
            return relax.const(array.reshape(shape), str(var.ty.dtype))
        axes = call.attrs.axes
        order = None if axes is None else [int(axis) for axis in axes]
        return relax.const(array.transpose(order), str(var.ty.dtype))


def fold_batch_norms(mod: tvm.IRModule) -> tvm.IRModule:
    """Fold batch normalizations of constants into the convolution or matrix product before them,
    and its bias.

    TVM 0.27 lowers each to an operator with three outputs, into which no convolution is fused, and
    which is wrong in float16. Here they are scales that are multiplied into the weights of what
    comes before, and added constants. Where there is no such operator, or another one reads its
    output, too, they become a product and a sum, which are fused into what comes before. Those in
    training mode, or with parameters that are not known, stay.
    """
    if all(operator_name(call) != "nn.batch_norm" for call in calls_in(mod)):
        return mod
    # Of tuples of which an element is taken, and of convolutions without their scale.
    return relax.transform.DeadCodeElimination()(
        relax.transform.CanonicalizeBindings()(_Folding.apply(mod))
    )


class _Folding(BlockRewriter):
    def _rewrite(self, var: Any, call: Any) -> Any:
        """What a batch normalization returns, computed otherwise; None for all else."""
        if operator_name(call) != "nn.batch_norm" or call.attrs.training:
            return None
        data, *parameters = call.args
        constant = all(isinstance(parameter, tvm.ir.Constant) for parameter in parameters)
        if not constant or not isinstance(data.ty.shape, relax.ShapeExpr):
            return None
        gamma, beta, mean, variance = map(_array, parameters)
        with np.errstate(all="ignore"):  # as TVM does
            scale = (gamma if call.attrs.scale else 1.0) / np.sqrt(variance + call.attrs.epsilon)
            shift = (beta if call.attrs.center else 0.0) - mean * scale
        axis = int(call.attrs.axis) % data.ty.ndim
        extents = [-1 if i == axis else 1 for i in range(data.ty.ndim)]
        product, bias = self._without_bias(data, axis)
        y = self._scaled(product, scale, axis)
        if y is not None:
            shift = shift + bias * scale
        else:
            # with 16 bits, little would be left of the difference of two large numbers
            is_narrow = str(data.ty.dtype) not in _SCALABLE
            x = self._emit(relax.op.astype(data, "float32")) if is_narrow else data
            y = self._emit(relax.op.multiply(x, _constant(scale.reshape(extents), x)))
        y = self._emit(relax.op.add(y, _constant(shift.reshape(extents), y)))
        if y.ty.dtype != data.ty.dtype:
            y = self._emit(relax.op.astype(y, data.ty.dtype))
        return relax.Tuple([y, *parameters[2:]])

    def _scaled(self, data: Any, scale: Any, axis: int) -> Any:
        """A convolution or matrix product with scaled weights; None if `data` is none, or read by
        others.
        """
        call = self._only_value(data)
        axes = _output_axes(call)
        if axes is None or axes[0] != axis:
            return None
        weight = call.args[1]
        if (
            not isinstance(weight, tvm.ir.Constant)
            or str(weight.ty.dtype) not in _SCALABLE
            or weight.ty.dtype != data.ty.dtype
        ):
            return None
        extents = [-1 if i == axes[1] else 1 for i in range(weight.ty.ndim)]
        scaled = _constant(_array(weight) * scale.reshape(extents), weight)
        return self._emit(relax.Call(call.op, [call.args[0], scaled], call.attrs))

    def _without_bias(self, data: Any, axis: int) -> tuple[Any, Any]:
        """What a bias was added to, if nothing else reads the sum, and the bias; or `data`, 0."""
        call = self._only_value(data)
        if operator_name(call) == "add":
            constants = [arg for arg in call.args if isinstance(arg, tvm.ir.Constant)]
            others = [arg for arg in call.args if isinstance(arg, relax.Var)]
            if len(constants) == len(others) == 1 and others[0].ty.ndim == data.ty.ndim:
                bias = _array(constants[0])
                bias = bias.reshape([1] * (data.ty.ndim - bias.ndim) + list(bias.shape))
                if bias.shape[axis] == bias.size:
                    return others[0], bias.ravel()
        return data, 0.0

    def _only_value(self, var: Any) -> Any:
        """The value of a variable that is read once, and no output of the block."""
        is_read_once = isinstance(var, relax.DataflowVar) and self._reads[var] == 1
        return self._value(var) if is_read_once else None


def _output_axes(call: Any) -> tuple[int, int] | None:
    """The axes of the output's channels and of the weights for one; None for other operators."""
    name = operator_name(call)
    if name in CONVOLUTIONS:
        return call.attrs.out_layout.index("C"), call.attrs.kernel_layout.index("O")
    if name == "matmul" and call.args[1].ty.ndim == 2:
        return call.args[0].ty.ndim - 1, 1
    return None


def _array(constant: Any) -> Any:
    return constant.value.numpy().astype("float64")


def _constant(array: Any, like: Any) -> Any:
    return relax.const(array, str(like.ty.dtype))
