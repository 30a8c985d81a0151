"""Concatenations without a copy: what computes an input writes it to its place in the output.

When a network is lowered, `mark_concats` keeps a concatenation from becoming an operator, which
would be tuned. When the network is built with its schedules, `write_in_place` lets the functions
that compute the inputs write to slices of one tensor.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate
from typing import Any

import tvm
from tvm import relax
from tvm.ir import Range, TensorLoad
from tvm.tirx import BufferLoad, BufferRegion, BufferStore, PrimFunc, decl_buffer

from autotvm_opevo.lowering.channels_last import ELEMENTWISE
from autotvm_opevo.lowering.rewriting import (
    CONVOLUTIONS,
    BlockRewriter,
    calls_in,
    operator_name,
    static_shape,
    transformed,
    variables_in,
)

# What a marked concatenation calls, with its axis and its inputs.
_MARK = "autotvm_opevo.concat"
# Operators into which the elementwise ones after them are fused.
_PRODUCTS = {*CONVOLUTIONS, "matmul"}


def mark_concats(mod: tvm.IRModule) -> tvm.IRModule:
    """Mark the concatenations whose inputs are computed by convolutions or matrix products, and
    elementwise operators after them, and read by nothing else.

    Others would be copied anyway, and are fused with what is around them.
    """
    return _Marking.apply(mod)


class _Marking(BlockRewriter):
    def __init__(self, block: Any, mod: tvm.IRModule) -> None:
        super().__init__(block, mod)
        self._products: set[Any] = set()  # and what elementwise operators make of them
        for var, value in self._values.items():
            name = operator_name(value)
            follows = name in ELEMENTWISE and not self._products.isdisjoint(variables_in(value))
            if isinstance(var, relax.DataflowVar) and (name in _PRODUCTS or follows):
                self._products.add(var)

    def _rewrite(self, var: Any, value: Any) -> Any:
        if operator_name(value) != "concat":
            return None
        inputs = getattr(value.args[0], "fields", [])
        if not inputs or not all(
            x in self._products and self._reads[x] == 1 and static_shape(x) is not None
            for x in inputs
        ):
            return None
        axis = relax.ShapeExpr([int(value.attrs.axis) % value.ty.ndim])
        return relax.call_pure_packed(_MARK, axis, *inputs, ty_args=value.ty)


def write_in_place(mod: tvm.IRModule) -> tvm.IRModule:
    """Let the functions that compute the inputs of marked concatenations write to one tensor."""
    if not any(_marked(call)[1] for call in calls_in(mod)):
        return mod
    # Where TVM packs weights, it leaves several names of what a function returns.
    mod = relax.transform.CanonicalizeBindings()(mod)
    functions = relax.BlockBuilder(mod)

    class Placing(BlockRewriter):
        def __init__(self, block: Any, mod: tvm.IRModule) -> None:
            super().__init__(block, mod)
            # by input: the concatenation, and the function that writes it to its place there
            self._places: dict[Any, tuple[Any, PrimFunc]] = {}
            self._written: dict[Any, Any] = {}  # by concatenation: with the inputs so far
            for var, value in self._values.items():
                axis, inputs = _marked(value)
                calls = [self._value(x) for x in inputs]
                if not calls or any(operator_name(call) != "call_tir" for call in calls):
                    continue
                starts = accumulate((int(x.ty.shape[axis]) for x in inputs), initial=0)
                writes = [
                    _write_slice(mod[call.args[0]], var.ty, axis, start)
                    for call, start in zip(calls, starts)
                ]
                if all(writes):
                    self._places.update((x, (var, write)) for x, write in zip(inputs, writes))

        def _rewrite(self, var: Any, value: Any) -> Any:
            if var in self._written:
                return self._written[var]
            if var in self._places:
                self._write(value, *self._places[var])
                return None  # nothing reads it any longer
            axis, inputs = _marked(value)
            return relax.op.concat(inputs, axis) if inputs else None

        def _write(self, call: Any, concat: Any, function: PrimFunc) -> None:
            name = functions.add_func(function, call.args[0].name_hint)
            arguments = list(call.args[1].fields)
            if concat in self._written:
                arguments.append(self._written[concat])
                last = len(arguments) - 1
                call = relax.op.call_tir_inplace(name, arguments, last, concat.ty)
            else:
                call = relax.call_tir(name, arguments, concat.ty)
            self._written[concat] = self._emit(call)

    placed = Placing.apply(mod)
    for name, function in functions.get().functions_items():
        if name not in mod.functions:
            placed.update_func(name, function)
    return relax.transform.DeadCodeElimination()(placed)


def _marked(value: Any) -> tuple[int, list[Any]]:
    """The axis and the inputs of a marked concatenation; no inputs if it is none."""
    if operator_name(value) != "call_pure_packed" or value.args[0].global_symbol != _MARK:
        return 0, []
    return int(value.args[1].values[0]), list(value.args[2:])


def _write_slice(
    function: PrimFunc, output: relax.TensorType, axis: int, start: int
) -> PrimFunc | None:
    """A function that writes its output to a slice of a tensor; None if it does so by its address,
    as instructions for matrices may.
    """
    *inputs, part = function.params
    whole = decl_buffer(output.shape.values, str(output.dtype), part.name)
    by_address = 0

    def shifted(indices: Iterable[Any]) -> list[Any]:
        return [index + start if i == axis else index for i, index in enumerate(indices)]

    def move(node: Any) -> Any:
        nonlocal by_address
        if node.same_as(part):
            by_address += 1  # until it turns out to be an access by indices
            return whole
        target = getattr(node, "buffer" if isinstance(node, BufferStore) else "source", None)
        if target is None or not target.same_as(whole):
            return node
        by_address -= 1
        if isinstance(node, BufferStore):
            return BufferStore(whole, node.value, shifted(node.indices))
        if isinstance(node, TensorLoad):
            return BufferLoad(whole, shifted(node.indices))
        starts = shifted(span.min for span in node.region)
        extents = [span.extent for span in node.region]
        return BufferRegion(whole, [*map(Range.from_min_extent, starts, extents)])

    body = transformed(function.body, move)
    if by_address:
        return None
    return PrimFunc([*inputs, whole], body, function.ret_type, function.attrs)
