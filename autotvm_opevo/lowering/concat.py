"""Concatenations without a copy: what computes an input writes it to its place in the output.

`split_concats` legalizes one to parts, tensors of the output's shape of which one slice is written,
and a call that joins them. `fuse` fuses each part into the operator before it, with which it is
tuned. When the network is built, `join_concats` makes the parts one tensor.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import tvm
from tvm import relax
from tvm.script import from_source, tirx

from autotvm_opevo.lowering.channels_last import ELEMENTWISE
from autotvm_opevo.lowering.rewriting import BlockRewriter, static_shape

_CALL_PURE_PACKED, _CONCAT = map(tvm.ir.Op.get, ("relax.call_pure_packed", "relax.concat"))
# Operators into which elementwise ones are fused.
_PRODUCTS = {*(f"nn.conv{n}d" for n in (1, 2, 3)), "nn.conv2d_transpose", "matmul"}
# Names of the functions that write a part, and of what joins them.
_PART, _JOIN = "concat_part", "autotvm_opevo.concat_join"
# TVM's kElemWise: operators that are fused into a convolution. It takes a part for none of these.
_ELEMENTWISE = 0


def split_concats(mod: tvm.IRModule) -> tvm.IRModule:
    """Legalize concatenations to parts that are joined, where convolutions or matrix products
    compute all inputs, with elementwise operators after them, and nothing else reads these.

    Others would be copied, as the concatenation does it, and not be fused with what follows it.
    """
    splitting = _Splitting(mod)
    for variable, function in mod.functions_items():
        if isinstance(function, relax.Function):
            splitting.builder_.update_func(variable, splitting.visit_expr(function))
    return splitting.builder_.get()


@relax.expr_functor.mutator
class _Splitting(relax.PyExprMutator):
    def visit_dataflow_block_(self, block: Any) -> Any:
        self._reads: Counter[Any] = Counter()
        self._fusible: set[Any] = set()  # variables whose operators parts are fused into
        for binding in block.bindings:
            nodes: list[Any] = []
            relax.analysis.post_order_visit(binding.value, nodes.append)
            variables = [node for node in nodes if isinstance(node, relax.Var)]
            self._reads.update(variables)
            name = getattr(getattr(binding.value, "op", None), "name", "").removeprefix("relax.")
            follows = name in ELEMENTWISE and not self._fusible.isdisjoint(variables)
            if isinstance(binding.var, relax.DataflowVar) and (name in _PRODUCTS or follows):
                self._fusible.add(binding.var)
        return super().visit_dataflow_block_(block)

    def visit_call_(self, call: Any) -> Any:
        if call.op != _CONCAT or not self._can_split(call):
            return super().visit_call_(call)
        axis, parts, offset = int(call.attrs.axis) % call.ty.ndim, [], 0
        for x in call.args[0].fields:
            write = _write_part(static_shape(x), static_shape(call), axis, offset, call.ty.dtype)
            function = self.builder_.add_func(write, _PART)
            part = relax.call_tir(function, [self.visit_expr(x)], call.ty)
            parts.append(self.builder_.emit(part))
            offset += int(x.ty.shape[axis])
        return relax.call_pure_packed(_JOIN, *parts, ty_args=call.ty)

    def _can_split(self, call: Any) -> bool:
        tensors = getattr(call.args[0], "fields", [])
        return bool(tensors) and all(
            x in self._fusible and self._reads[x] == 1 and static_shape(x) for x in tensors
        )


def _write_part(of_x: Any, of_y: Any, axis: int, offset: int, dtype: Any) -> tvm.tirx.PrimFunc:
    """A function that writes a tensor to a slice of another one, of extents."""
    loops, variables = ([f"{name}{i}" for i in range(len(of_x))] for name in "iv")
    written = [*variables]
    written[axis] += f" + {offset}"
    of_x, of_y = (", ".join(f"T.int64({extent})" for extent in extents) for extents in (of_x, of_y))
    return from_source(
        f"""
@T.prim_func(private=True, s_tir=True)
def main(x: T.Buffer([{of_x}], dtype), y: T.Buffer([{of_y}], dtype)):
    T.func_attr({{"tirx.noalias": True}})
    for {", ".join(loops)} in T.grid({of_x}):
        with T.sblock(_PART):
            {", ".join(variables)} = T.axis.remap("{"S" * len(loops)}", [{", ".join(loops)}])
            y[{", ".join(written)}] = x[{", ".join(variables)}]
""",
        {"T": tirx, "dtype": dtype, "_PART": _PART},
    )


def fuse(mod: tvm.IRModule) -> tvm.IRModule:
    """Fuse the operators of a legalized network as TVM does, and parts into them."""
    mod = relax.transform.AnnotateTIROpPattern()(mod)
    for variable, function in mod.functions_items():
        if variable.name_hint.startswith(_PART):
            mod.update_func(variable, function.with_attr("op_pattern", _ELEMENTWISE))
    passes = [getattr(relax.transform, name)() for name in ("FoldConstant", "FuseOps", "FuseTIR")]
    return tvm.transform.Sequential(passes)(mod)


def join_concats(mod: tvm.IRModule) -> tvm.IRModule:
    """Let all parts of a concatenation be written to one tensor."""
    return relax.transform.CanonicalizeBindings()(_Joining.apply(mod))


class _Joining(BlockRewriter):
    def __init__(self, block: Any, mod: tvm.IRModule) -> None:
        super().__init__(block, mod)
        # by part: the one that is written before; by output: the part that is written last
        self._before: dict[Any, Any] = {}
        self._last: dict[Any, Any] = {}
        order = {binding.var: i for i, binding in enumerate(block.bindings)}
        for binding in block.bindings:
            if _is_join(binding.value):
                parts = sorted(binding.value.args[1:], key=order.__getitem__)
                self._before.update(zip(parts[1:], parts))
                self._last[binding.var] = parts[-1]

    def _rewrite(self, var: Any, value: Any) -> Any:
        if var in self._last:
            return self._last[var]
        if var not in self._before:
            return None
        function, tensors = value.args[:2]
        arguments = [*tensors.fields, self._before[var]]
        return relax.op.call_tir_inplace(function, arguments, len(arguments) - 1, var.ty)


def _is_join(value: Any) -> bool:
    is_packed = isinstance(value, relax.Call) and value.op == _CALL_PURE_PACKED
    return is_packed and getattr(value.args[0], "global_symbol", "") == _JOIN
