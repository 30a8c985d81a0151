"""Batch normalizations of inference: scales that are multiplied into the weights of what comes
before, and added constants.

TVM 0.27 lowers each to an operator with three outputs, into which no convolution is fused, and
which is wrong in float16.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import tvm
from tvm import relax

from autotvm_opevo.lowering.block_rewriter import BlockRewriter

_BATCH_NORM, _ADD = map(tvm.ir.Op.get, ("relax.nn.batch_norm", "relax.add"))
_CONVOLUTIONS = {"relax.nn.conv1d", "relax.nn.conv2d", "relax.nn.conv3d"}
# Scaled weights could leave the range of smaller ones.
_SCALABLE = ("float32", "float64")


def fold_batch_norms(mod: tvm.IRModule) -> tvm.IRModule:
    """Fold batch normalizations of constants into the convolution or matrix product before them,
    and its bias.

    Where there is none, or another operator reads its output, too, they become a product and a sum,
    which are fused into what comes before. Those in training mode, or with parameters that are not
    known, stay.

    Parameters
    ----------
    mod : tvm.IRModule
        A Relax network with bound weights.

    Examples
    --------
    >>> import numpy as np
    >>> x = relax.Var("x", relax.TensorType((1, 4, 8, 8), "float32"))
    >>> weight = relax.const(np.ones((4, 4, 3, 3), "float32"))
    >>> parameters = [relax.const(np.ones(4, "float32"))] * 4
    >>> builder = relax.BlockBuilder()
    >>> with builder.function("main", [x]):
    ...     with builder.dataflow():
    ...         y = builder.emit(relax.op.nn.conv2d(x, weight))
    ...         y = relax.op.nn.batch_norm(y, *parameters, axis=1, training=False)
    ...         y = builder.emit(y)
    ...         y = builder.emit_output(relax.TupleGetItem(y, 0))
    ...     _ = builder.emit_func_output(y)
    >>> [block] = fold_batch_norms(builder.finalize())["main"].body.blocks
    >>> [binding.value.op.name for binding in block.bindings]
    ['relax.nn.conv2d', 'relax.add']
    """
    if not any(_has_batch_norm(function) for function in mod.functions.values()):
        return mod
    # Of tuples of which an element is taken, and of convolutions without their scale.
    return relax.transform.DeadCodeElimination()(
        relax.transform.CanonicalizeBindings()(_Folding.apply(mod))
    )


def _has_batch_norm(function: Any) -> bool:
    batch_norms = []

    def visit(node: Any) -> None:
        if isinstance(node, relax.Call) and node.op == _BATCH_NORM:
            batch_norms.append(node)

    if isinstance(function, relax.Function):
        relax.analysis.post_order_visit(function, visit)
    return bool(batch_norms)


class _Folding(BlockRewriter):
    def __init__(self, block: Any, mod: tvm.IRModule) -> None:
        super().__init__(block, mod)
        self._values = {
            binding.var: binding.value
            for binding in block.bindings
            if isinstance(binding, relax.VarBinding)
        }
        self._uses: Counter[Any] = Counter()
        for binding in block.bindings:
            relax.analysis.post_order_visit(binding.value, self._count)

    def _count(self, node: Any) -> None:
        if isinstance(node, relax.Var):
            self._uses[node] += 1

    def _rewrite(self, var: Any, call: Any) -> Any:
        """What a batch normalization returns, otherwise computed; None for all else."""
        if not isinstance(call, relax.Call) or call.op != _BATCH_NORM or call.attrs.training:
            return None
        data, *parameters = call.args
        constant = all(isinstance(parameter, tvm.ir.Constant) for parameter in parameters)
        if not constant or not isinstance(data.ty.shape, relax.ShapeExpr):
            return None
        scale, shift = _scale_and_shift(parameters, call.attrs)
        axis = int(call.attrs.axis) % data.ty.ndim
        extents = [-1 if i == axis else 1 for i in range(data.ty.ndim)]
        product, bias = self._without_bias(data, axis)
        y = self._scaled(product, scale, axis)
        if y is not None:
            shift = shift + bias * scale
        else:
            y = self._emit(relax.op.multiply(data, _constant(scale.reshape(extents), data)))
        y = self._emit(relax.op.add(y, _constant(shift.reshape(extents), data)))
        return relax.Tuple([y, *parameters[2:]])

    def _scaled(self, data: Any, scale: Any, axis: int) -> Any:
        """A convolution or matrix product with scaled weights, if `data` is one that nothing else
        reads.
        """
        call = self._only_value(data)
        axes = _output_axes(call) if isinstance(call, relax.Call) else None
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
        """What a bias was added to, and the bias, for each channel, if nothing else reads the sum;
        or `data` and 0.
        """
        call = self._only_value(data)
        if isinstance(call, relax.Call) and call.op == _ADD:
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
        return (
            self._values.get(var)
            if isinstance(var, relax.DataflowVar) and self._uses[var] == 1
            else None
        )


def _scale_and_shift(parameters: list[Any], attrs: Any) -> tuple[Any, Any]:
    """The vectors a and b of a x + b, in float64."""
    gamma, beta, mean, variance = map(_array, parameters)
    with np.errstate(all="ignore"):  # as TVM does
        scale = (gamma if attrs.scale else 1.0) / np.sqrt(variance + attrs.epsilon)
        return scale, (beta if attrs.center else 0.0) - mean * scale


def _output_axes(call: Any) -> tuple[int, int] | None:
    """The axis of the channels of the output, and of the weights that are factors of one of them;
    None for other operators.
    """
    name = getattr(call.op, "name", "")
    if name in _CONVOLUTIONS:
        return call.attrs.out_layout.index("C"), call.attrs.kernel_layout.index("O")
    if name == "relax.matmul" and call.args[1].ty.ndim == 2:
        return call.args[0].ty.ndim - 1, 1
    return None


def _array(constant: Any) -> Any:
    return constant.value.numpy().astype("float64")


def _constant(array: Any, like: Any) -> Any:
    return relax.const(array, str(like.ty.dtype))
