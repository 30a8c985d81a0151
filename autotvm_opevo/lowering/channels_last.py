"""Convolutions in NHWC, and what lies between them: the innermost loop is over channels, in which
values are contiguous.

TVM's own pass, ``ConvertLayout``, has a rule for each of many operators. In TVM 0.27 that of
``layer_norm`` changes what is computed, without an error, and some lead to what cannot be compiled,
such as that of transposed convolutions. Here are rules for the operators that networks have between
convolutions, each of them tested; at all others images are transposed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from itertools import compress
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.relax import op

from autotvm_opevo.lowering.rewriting import (
    BlockRewriter,
    operator_name,
    static_shape,
    with_fields,
)

# The axes of one layout, in the order of the other. The latter is also where each axis of NCHW is
# in NHWC.
_TO_NHWC, _TO_NCHW = [0, 2, 3, 1], [0, 3, 1, 2]
_OIHW_TO_HWIO = [2, 3, 1, 0]

# Operators that compute each element from those at the same place, after broadcasting.
ELEMENTWISE = {
    "abs",
    "add",
    "astype",
    "ceil",
    "clip",
    "divide",
    "erf",
    "exp",
    "floor",
    "log",
    "maximum",
    "minimum",
    "multiply",
    "negative",
    "power",
    "round",
    "rsqrt",
    "sigmoid",
    "sign",
    "sqrt",
    "square",
    "subtract",
    "tanh",
    "nn.gelu",
    "nn.gelu_tanh",
    "nn.leakyrelu",
    "nn.relu",
    "nn.selu",
    "nn.silu",
    "nn.softplus",
}


def with_channels_last(mod: tvm.IRModule) -> tvm.IRModule:
    """Convert two-dimensional convolutions with constant weights to NHWC, and what lies between
    them.

    Inputs and outputs stay as they are. So do convolutions with other weights, which would be
    transposed in each run, and what is not in a dataflow block or has extents that are not known.
    Transposes of constants, and those that nothing reads, are left to what folds constants.
    """
    return _Conversion.apply(mod)


class _Conversion(BlockRewriter):
    """Each variable keeps its value, for other operators: of an image in NHWC it is a transpose."""

    def __init__(self, block: Any, mod: tvm.IRModule) -> None:
        super().__init__(block, mod)
        # by variable: an image, or a tuple of them, that was computed in NHWC
        self._nhwc: dict[Any, Any] = {}
        self._transposed: dict[Any, Any] = {}  # by tensor: one that was not, in NHWC

    def _rewrite(self, var: Any, value: Any) -> Any:
        """The value of a variable, computed in NHWC; None if it stays as it is."""
        name = operator_name(value)
        if name == "permute_dims":
            return self._permute_dims(var, value)
        converted = self._in_nhwc(name, value)
        if converted is None:
            return None
        converted = self._builder.normalize(converted)
        if not isinstance(converted.ty, relax.TupleType) and converted.ty.ndim != 4:
            return converted
        self._nhwc[var] = converted if isinstance(converted, relax.Var) else self._emit(converted)
        return self._in_nchw(self._nhwc[var])

    def _in_nhwc(self, name: str, value: Any) -> Any:
        """A value with all images in NHWC; None if it stays as it is."""
        if isinstance(value, relax.TupleGetItem) and value.tuple_value in self._nhwc:
            return relax.TupleGetItem(self._nhwc[value.tuple_value], value.index)
        if name == "nn.conv2d":
            return self._conv2d(value)
        if name == "concat":
            return self._concat(value)
        if name == "sum" and operator_name(self._value(value.args[0])) == "stack":
            return self._sum_of_stack(value)
        if name == "reshape":
            return self._rearranged(value)
        if name in ELEMENTWISE:
            return self._elementwise(value)
        if name in _RULES and value.args[0] in self._nhwc:
            return _RULES[name](self._nhwc[value.args[0]], value)
        return None

    def _conv2d(self, call: Any) -> Any:
        (data, weight), attrs = call.args, call.attrs
        layouts = attrs.data_layout, attrs.kernel_layout, attrs.out_layout
        is_constant = isinstance(weight, tvm.ir.Constant)
        if layouts != ("NCHW", "OIHW", "NCHW") or not is_constant or not _is_static(data):
            return None
        kernel = _transposed_constant(weight, _OIHW_TO_HWIO)
        pad, before = self._value(data), [0] * 4
        if zeros := _zero_padding(pad):
            data, before = pad.args[0], zeros
        padding = [int(own) + other for own, other in zip(attrs.padding, before)]
        return op.nn.conv2d(
            *(self._image(data), kernel, attrs.strides, padding, attrs.dilation, attrs.groups),
            data_layout="NHWC",
            kernel_layout="HWIO",
            out_dtype=attrs.out_dtype,
        )

    def _concat(self, call: Any) -> Any:
        if not isinstance(call.args[0], relax.Tuple) or call.attrs.axis is None:
            return None
        images = list(call.args[0].fields)
        if not self._is_region(images) or any(image.ty.ndim != 4 for image in images):
            return None
        return op.concat([self._image(image) for image in images], _axis(call.attrs.axis))

    def _sum_of_stack(self, call: Any) -> Any:
        """What ONNX's Sum becomes, in residual networks."""
        stack, attrs = self._values[call.args[0]], call.attrs
        images = list(getattr(stack.args[0], "fields", []))
        of_stack = attrs.axis is not None and [*map(int, attrs.axis)] == [0] and not attrs.keepdims
        if stack.attrs.axis != 0 or len(images) < 2 or not of_stack or not self._is_region(images):
            return None
        in_nhwc = [self._image(image) for image in images]
        return reduce(lambda x, y: self._emit(op.add(x, y)), in_nhwc)

    def _elementwise(self, call: Any) -> Any:
        are_tensors = [isinstance(arg.ty, relax.TensorType) for arg in call.args]
        if not self._is_region([*compress(call.args, are_tensors)]):
            return None
        args = [self._image(arg) if is_one else arg for arg, is_one in zip(call.args, are_tensors)]
        return relax.Call(call.op, args, call.attrs)

    def _permute_dims(self, var: Any, call: Any) -> Any:
        """Merge a transpose with that of its image."""
        (data,), axes = call.args, call.attrs.axes
        if data in self._nhwc:
            axes = (3, 2, 1, 0) if axes is None else axes
            return op.permute_dims(self._nhwc[data], [_axis(axis) for axis in axes])
        if _is_static(data) and axes is not None and [int(axis) % 4 for axis in axes] == _TO_NCHW:
            self._transposed[var] = data
        return None

    def _rearranged(self, call: Any) -> Any:
        """Three operators that shuffle channels, or move them to pixels, given the last one: the
        axes of an image are split, their parts permuted, and merged.
        """
        permuted = self._value(call.args[0])
        if operator_name(permuted) != "permute_dims":
            return None
        split, axes = self._value(permuted.args[0]), permuted.attrs.axes
        if operator_name(split) != "reshape" or split.args[0] not in self._nhwc:
            return None
        extents, parts, shape = map(static_shape, (split.args[0], split, call))
        if not extents or not parts or not shape or len(shape) != 4:
            return None
        order = [int(part) % len(parts) for part in axes or reversed(range(len(parts)))]
        groups, merged = _group(parts, extents), _group([parts[part] for part in order], shape)
        if not groups or not merged:
            return None
        before = [part for axis in _TO_NHWC for part in groups[axis]]
        after = [order[i] for axis in _TO_NHWC for i in merged[axis]]
        y = self._emit(op.reshape(self._nhwc[split.args[0]], [parts[part] for part in before]))
        y = self._emit(op.permute_dims(y, [before.index(part) for part in after]))
        return op.reshape(y, [shape[axis] for axis in _TO_NHWC])

    def _is_region(self, tensors: list[Any]) -> bool:
        """Whether tensors, of which one or more are in NHWC, can be combined in NHWC."""
        return any(tensor in self._nhwc for tensor in tensors) and all(
            _is_static(tensor, 4) for tensor in tensors
        )

    def _image(self, tensor: Any) -> Any:
        """A tensor in NHWC; with fewer axes, it gets those by which it would be broadcast."""
        ndim = tensor.ty.ndim
        if ndim == 0:
            return tensor
        if tensor in self._nhwc:
            return self._nhwc[tensor]
        if tensor not in self._transposed:
            if isinstance(tensor, tvm.ir.Constant):
                return _transposed_constant(tensor, _TO_NHWC)
            image = (
                tensor if ndim == 4 else self._emit(op.expand_dims(tensor, list(range(4 - ndim))))
            )
            self._transposed[tensor] = self._emit(op.permute_dims(image, _TO_NHWC))
        return self._transposed[tensor]

    def _in_nchw(self, value: Any) -> Any:
        """The images of a value that is in NHWC, transposed."""
        if isinstance(value.ty, relax.TupleType):
            fields = [self._emit(relax.TupleGetItem(value, i)) for i in range(len(value.ty.fields))]
            return relax.Tuple(
                [self._emit(self._in_nchw(x)) if x.ty.ndim == 4 else x for x in fields]
            )
        return op.permute_dims(value, _TO_NCHW)


def _group(parts: list[int], extents: list[int]) -> list[list[int]] | None:
    """Positions of consecutive parts whose product is each of the extents; None if there are none.

    >>> _group([1, 2, 3, 7, 7], [1, 6, 7, 7])
    [[0], [1, 2], [3], [4]]
    >>> _group([2, 3, 49], [1, 6, 7, 7])
    """
    groups, i = [], 0
    for extent in extents:
        first, product = i, 1
        while i < len(parts) and product * parts[i] <= extent:
            product *= parts[i]
            i += 1
        if product != extent:
            return None
        groups.append(list(range(first, i)))
    return groups


def _is_static(tensor: Any, most: int | None = None) -> bool:
    """Whether a tensor has known extents, four of them, or at most so many."""
    extents = static_shape(tensor)
    return extents is not None and (len(extents) == 4 if most is None else len(extents) <= most)


def _transposed_constant(constant: Any, axes: list[int]) -> Any:
    """One with four axes, of which the first are added if there are fewer. TVM would compile a
    function for each shape.
    """
    values = constant.value.numpy()
    values = values.reshape([1] * (4 - values.ndim) + list(values.shape)).transpose(axes)
    return relax.const(np.ascontiguousarray(values), str(constant.ty.dtype))


def _axis(axis: Any) -> int:
    """Where an axis of NCHW, which may be negative, is in NHWC."""
    return _TO_NCHW[int(axis) % 4]


def _zero_padding(call: Any) -> list[int] | None:
    """The zeros that pad an image, in a convolution's order; None if it is no such padding."""
    if operator_name(call) != "nn.pad":
        return None
    attrs, width = call.attrs, [int(n) for n in call.attrs.pad_width]
    has_zeros = attrs.pad_mode == "constant" and attrs.pad_value == 0
    if not has_zeros or len(width) != 8 or any(width[:4]) or min(width) < 0:
        return None
    top, bottom, left, right = width[4:]
    return [top, left, bottom, right]


def _with(change: Callable[[Any], dict[str, Any] | None]) -> Callable[[Any, Any], Any]:
    """A rule for an operator that is the same in NHWC, but for some attributes, given its own."""

    def rule(x: Any, call: Any) -> Any:
        changed = change(call.attrs)
        if changed is None:
            return None
        return relax.Call(call.op, [x, *call.args[1:]], with_fields(call.attrs, **changed))

    return rule


def _pool(attrs: Any) -> dict[str, Any] | None:
    layouts = attrs.layout, attrs.out_layout
    return {"layout": "NHWC", "out_layout": "NHWC"} if layouts == ("NCHW", "NCHW") else None


def _reduce(attrs: Any) -> dict[str, Any] | None:
    axes = [_axis(axis) for axis in (range(4) if attrs.axis is None else attrs.axis)]
    left = [axis for axis in _TO_NCHW if axis not in axes]
    # Without the axes, what is left must be in the same order.
    return {"axis": axes} if attrs.keepdims or left == sorted(left) else None


def _normalize(attrs: Any) -> dict[str, Any]:
    axes = [_axis(axis) for axis in attrs.axes]
    return {"channel_axis": _axis(attrs.channel_axis), "axes": axes}


def _pad(attrs: Any) -> dict[str, Any]:
    return {"pad_width": [attrs.pad_width[2 * axis + i] for axis in _TO_NHWC for i in (0, 1)]}


def _strided_slice(x: Any, call: Any) -> Any:
    axes, *limits = call.args[1:]
    if not isinstance(axes, relax.Tuple):
        return None
    return op.strided_slice(
        x, [_axis(axis) for axis in axes], *limits, assume_inbound=call.attrs.assume_inbound
    )


def _broadcast_to(x: Any, call: Any) -> Any:
    """TVM's ONNX importer has one before each Sum; one that changes nothing would keep an
    activation from being fused.
    """
    shape = static_shape(call)
    if shape is None or len(shape) != 4:
        return None
    shape = [shape[axis] for axis in _TO_NHWC]
    return x if shape == static_shape(x) else op.broadcast_to(x, shape)


_ON_AXIS = _with(lambda attrs: {"axis": _axis(attrs.axis)})

# Operators on one image, which is given in NHWC, with the call in NCHW. Images of the result are in
# NHWC, other tensors the same.
_RULES: dict[str, Callable[[Any, Any], Any]] = {
    **dict.fromkeys(["nn.max_pool2d", "nn.avg_pool2d", "nn.adaptive_avg_pool2d"], _with(_pool)),
    **dict.fromkeys(["max", "mean", "min", "sum"], _with(_reduce)),
    **dict.fromkeys(["nn.batch_norm", "nn.prelu", "nn.softmax", "split"], _ON_AXIS),
    **dict.fromkeys(["quantize", "dequantize"], _ON_AXIS),
    **dict.fromkeys(["nn.group_norm", "nn.instance_norm"], _with(_normalize)),
    "nn.dropout": _with(lambda attrs: {}),
    "nn.pad": _with(_pad),
    "image.resize2d": _with(lambda attrs: {"layout": "NHWC"} if attrs.layout == "NCHW" else None),
    "broadcast_to": _broadcast_to,
    "strided_slice": _strided_slice,
}
