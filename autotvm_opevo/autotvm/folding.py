"""Bind a network's weights and compute what is constant, once for all compilations."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import or_
from typing import Any

import numpy as np
import tvm
from tvm import relay
from tvm.relay.dataflow_pattern import DFPatternCallback, is_constant, is_op, rewrite

from autotvm_opevo.autotvm.relay_module import as_module

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
    fold_elementwise = relay.transform.function_pass(_fold_elementwise, opt_level=2)
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


def _fold_elementwise(
    function: relay.Function, mod: tvm.IRModule, context: tvm.transform.PassContext
) -> relay.Function:
    """Compute elementwise operations on float32 constants with numpy; `FoldConstant` is for all
    others.
    """
    return rewrite(_Elementwise(), function, mod)


class _Elementwise(DFPatternCallback):
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
