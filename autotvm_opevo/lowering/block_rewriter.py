"""Rewriting of the dataflow blocks of a Relax network, in which its operators are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import tvm
from tvm import relax


class BlockRewriter(ABC):
    """Rewrites a dataflow block. Its variables stay, with other values.

    Parameters
    ----------
    block : tvm.relax.DataflowBlock
    mod : tvm.IRModule
        That it belongs to.
    """

    def __init__(self, block: Any, mod: tvm.IRModule) -> None:
        self._block, self._mod = block, mod
        self._builder = relax.BlockBuilder()
        self._bindings: list[Any] = []

    @classmethod
    def apply(cls, mod: tvm.IRModule) -> tvm.IRModule:
        """A module with all blocks rewritten."""

        def rewrite(block: Any, mod: tvm.IRModule, context: Any) -> Any:
            return cls(block, mod)._rewritten()

        return relax.transform.dataflowblock_pass(rewrite, opt_level=0)(mod)

    def _rewritten(self) -> Any:
        for binding in self._block.bindings:
            value = (
                self._rewrite(binding.var, binding.value)
                if isinstance(binding, relax.VarBinding)
                else None
            )
            self._bindings.append(
                binding
                if value is None
                else relax.VarBinding(binding.var, self._builder.normalize(value))
            )
        return relax.DataflowBlock(self._bindings)

    @abstractmethod
    def _rewrite(self, var: Any, value: Any) -> Any:
        """Another value of a variable; None if it keeps its own."""

    def _emit(self, value: Any) -> Any:
        """A new variable of a value, before the one that is rewritten."""
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
