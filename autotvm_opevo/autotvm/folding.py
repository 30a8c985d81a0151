"""Relay networks as they are given, as one function with its weights bound and what is constant
computed, once for all compilations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from operator import or_
from typing import Any

import numpy as np
import tvm
from tvm import relay
from tvm.relay.dataflow_pattern import DFPatternCallback, is_constant, is_op, rewrite
from tvm.relay.ty import is_dynamic

_UNARY: dict[str, Callable[..., Any]] = {
    "negative": np.negative,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: np.reciprocal(np.sqrt(x)),
}
_BINARY: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
}
_RESHAPES = ("expand_dims", "squeeze")


def fold(mod: tvm.IRModule | relay.Function, params: dict[str, Any] | None) -> tvm.IRModule:
    """Bind a network's weights, and fold what is constant into them, such as batch normalizations,
    as its compilation would.

    Each compilation would do it again, and TVM compiles each constant operation for it, some
    hundreds in a network. Raises what `as_module` does.
    """
    # on float32; `FoldConstant` is for all others
    fold_elementwise = relay.transform.function_pass(
        lambda function, mod, _: rewrite(_Elementwise(), function, mod),
        opt_level=2,
        name="FoldElementwise",
    )
    passes = [
        relay.transform.SimplifyInference(),
        fold_elementwise,
        relay.transform.FoldConstant(),
        relay.transform.BackwardFoldScaleAxis(),
        relay.transform.ForwardFoldScaleAxis(),
        fold_elementwise,
        relay.transform.FoldConstant(),
    ]
    with tvm.transform.PassContext(opt_level=3):
        return tvm.transform.Sequential(passes)(as_module(mod, params))


class _Elementwise(DFPatternCallback):
    """Computes elementwise operations on float32 constants with numpy."""

    def __init__(self) -> None:
        super().__init__(require_type=True)
        unary = reduce(or_, map(is_op, (*_UNARY, *_RESHAPES)))
        binary = reduce(or_, map(is_op, _BINARY))
        self.pattern = unary(is_constant()) | binary(is_constant(), is_constant())

    def callback(self, pre: relay.Call, post: relay.Call, node_map: object) -> relay.Expr:
        arrays = [argument.data.numpy() for argument in post.args]
        if any(array.dtype != np.float32 for array in arrays):
            return post
        if post.op.name in _RESHAPES:
            return relay.const(
                arrays[0].reshape([int(extent) for extent in pre.checked_type.shape])
            )
        with np.errstate(all="ignore"):  # as TVM does
            return relay.const((_UNARY | _BINARY)[post.op.name](*arrays))


def nodes(expression: relay.Expr) -> list[relay.Expr]:
    """All parts of an expression, each once, what it needs before it."""
    parts: list[relay.Expr] = []
    relay.analysis.post_order_visit(expression, parts.append)
    return parts


def operator_name(node: relay.Expr) -> str:
    """The name of the operator that is called; empty if none is."""
    is_call = isinstance(node, relay.Call) and isinstance(node.op, tvm.ir.Op)
    return str(node.op.name) if is_call else ""


def as_module(mod: Any, params: Any = None) -> tvm.IRModule:
    """A copy of a Relay network as one function, ``main``, with its weights bound, and what it
    calls inlined; functions that call themselves, and those for external code generators, stay.

    A `ValueError` if it is no network of Relay, has no ``main``, the weights have no names or do
    not fit, or the shape of an input is unknown.
    """
    module = _with_main(mod)
    weights = _weights(params, module["main"])
    module["main"] = relay.build_module.bind_params_by_name(module["main"], weights)
    try:
        module = relay.transform.InferType()(
            _inlined(relay.transform.RemoveUnusedFunctions()(module))
        )
    except tvm.TVMError as error:
        if untyped := [
            variable.name_hint
            for variable in module["main"].params
            if variable.type_annotation is None
        ]:
            raise _unknown(dict.fromkeys(untyped, "of any rank")) from error
        raise
    if unknown := dict(_unknown_inputs(module["main"])):
        raise _unknown(unknown)
    # shapes that seem to depend on data; with functions that call themselves, TVM's pass fails
    if len(module.functions) == 1 and any(
        isinstance(node, relay.Call) and is_dynamic(node.checked_type)
        for node in nodes(module["main"])
    ):
        module = relay.transform.DynamicToStatic()(module)
    return module


def _with_main(mod: Any) -> tvm.IRModule:
    """A copy of a module, or of a function as one, with a function ``main``."""
    if isinstance(mod, relay.Function):
        return tvm.IRModule.from_expr(mod)
    if not isinstance(mod, tvm.IRModule):
        raise ValueError(f"mod must be an IRModule or a relay.Function, {type(mod).__name__} given")
    names = sorted(variable.name_hint for variable in mod.functions)
    if "main" not in names:
        hint = f': mod["main"] = mod["{names[0]}"] makes that it' if names else ""
        known = ", ".join(names) or "none"
        raise ValueError(f"mod must have a function main, it has {known}{hint}")
    if not isinstance(mod["main"], relay.Function):
        kind = type(mod["main"])
        raise ValueError(
            f"mod must be a network of Relay, its main is a {kind.__module__}.{kind.__name__}"
        )
    return mod.clone()


def _inlined(module: tvm.IRModule) -> tvm.IRModule:
    """A module whose functions that call no others are inlined, then those that call none any more,
    and so on; not ``main``, nor those of other code generators.

    ``relay.transform.Inline`` fails where a function is called twice; the pass for those of
    external code generators does not.
    """
    while True:
        called: dict[relay.GlobalVar, set[relay.GlobalVar]] = {}
        passed: set[relay.GlobalVar] = set()  # as values, to functions that call them
        for variable, function in module.functions.items():
            if (
                isinstance(function, relay.Function)
                and not function.type_params
                and not (function.attrs and "Compiler" in function.attrs)
            ):
                parts = nodes(function)
                called[variable] = {node for node in parts if isinstance(node, relay.GlobalVar)}
                arguments = (
                    arg for node in parts if isinstance(node, relay.Call) for arg in node.args
                )
                passed.update(arg for arg in arguments if isinstance(arg, relay.GlobalVar))
        leaves = [
            variable
            for variable, others in called.items()
            if variable.name_hint != "main"
            and variable not in passed
            and not others & called.keys()
        ]
        if not leaves:
            return module
        for variable in leaves:
            module[variable] = module[variable].with_attr("Compiler", "none")
        module = relay.transform.InlineCompilerFunctionsBoundTo(leaves)(module)


def _weights(params: Any, main: relay.Function) -> dict[str, Any]:
    """Weights by name, of the types that the function declares: with another shape it would be
    another network.
    """
    weights = {} if params is None else params
    if not isinstance(weights, Mapping) or not all(isinstance(name, str) for name in weights):
        raise ValueError(
            "params must be None, or a dict with weights by their names (str), as "
            f"relay.load_param_dict returns; {type(params).__name__} given"
        )
    for variable in main.params:
        declared, weight = variable.type_annotation, weights.get(variable.name_hint)
        if weight is None or not isinstance(declared, relay.TensorType):
            continue
        array = weight if isinstance(weight, tvm.nd.NDArray) else np.asarray(weight)
        shape, dtype = tuple(map(int, array.shape)), str(array.dtype)
        expected = _extents(declared)
        if (
            dtype != declared.dtype
            or len(shape) != len(expected)
            or any(n not in (None, extent) for n, extent in zip(expected, shape))
        ):
            known = tuple("?" if n is None else n for n in expected)
            raise ValueError(
                "params must be of the shapes and dtypes of their parameters: "
                f"{variable.name_hint!r} is {declared.dtype} of shape {known}, {dtype} of shape "
                f"{shape} given"
            )
    return dict(weights)


def _extents(tensor: relay.TensorType) -> list[int | None]:
    """The extents of a shape; None for what is unknown."""
    return [int(n) if isinstance(n, tvm.tir.IntImm) else None for n in tensor.shape]


def _unknown_inputs(main: relay.Function) -> Iterator[tuple[str, str]]:
    """The names of the inputs whose shape is unknown, and their shapes, in which a question mark
    stands for an unknown extent.
    """
    for variable in main.params:
        for kind in getattr(variable.checked_type, "fields", [variable.checked_type]):
            if isinstance(kind, relay.TensorType) and None in (shape := _extents(kind)):
                known = ", ".join("?" if n is None else str(n) for n in shape)
                yield variable.name_hint, f"({known}{',' * (len(shape) == 1)})"
                break


def _unknown(inputs: Mapping[str, str]) -> ValueError:
    """The error for inputs, given by what is known of their shapes."""
    names = ", ".join(f"{name!r} {shape}" for name, shape in inputs.items())
    name, shape = next(iter(inputs.items()))
    known = shape.replace("?", "1") if "?" in shape else "(1, 3, 224, 224)"
    return ValueError(
        f"the shapes of all inputs must be known, that of {names} is not: give it to TVM's "
        f"frontend, as in relay.frontend.from_onnx(model, shape={{{name!r}: {known}}}), or to "
        f"relay.var({name!r}, shape={known}), and let relay.transform.DynamicToStatic()(mod) follow"
    )
