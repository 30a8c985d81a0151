"""Reshaped and transposed constants are computed before a network is lowered, as TVM does it."""

import numpy as np
import pytest
import tvm
from relax_modules import network_of
from tvm import relax

from autotvm_opevo.lowering.rewriting import calls_in, fold_views, operator_name

SHAPE = (2, 3, 4)
VIEWS = {
    "reshape": (lambda x: relax.op.reshape(x, (4, 6)), lambda x: x.reshape(4, 6)),
    "reversed": (lambda x: relax.op.permute_dims(x), np.transpose),
    "permuted": (lambda x: relax.op.permute_dims(x, (0, 2, 1)), lambda x: x.transpose(0, 2, 1)),
}


def network(operator, array):
    """Adds an operator of a constant."""
    dtype = str(array.dtype)
    return network_of(
        lambda x: relax.op.add(x, operator(relax.const(array, dtype))), shape=(1,), dtype=dtype
    )


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "bool"])
@pytest.mark.parametrize("view", VIEWS)
def test_views_of_constants_are_computed(view, dtype):
    operator, expected = VIEWS[view]
    array = np.arange(24).reshape(SHAPE).astype(dtype)
    mod = fold_views(network(operator, array))
    assert list(map(operator_name, calls_in(mod))) == ["add"]
    (block,) = mod["main"].body.blocks
    (found,) = (b.value.value.numpy() for b in block.bindings if hasattr(b.value, "value"))
    np.testing.assert_array_equal(found, expected(array))


def test_a_constant_without_axes_keeps_its_shape():
    mod = network(relax.op.permute_dims, np.array(2.0, "float32"))
    fold = relax.transform.FoldConstant()
    tvm.ir.assert_structural_equal(fold(fold_views(mod)), fold(mod))


@pytest.mark.parametrize("view", VIEWS)
def test_tvms_pass_finds_the_same_constants(view):
    array = np.arange(24).reshape(SHAPE).astype("float32")
    mod = network(VIEWS[view][0], array)
    fold = relax.transform.FoldConstant()
    tvm.ir.assert_structural_equal(fold(fold_views(mod)), fold(mod))


def test_what_is_no_view_or_of_no_constant_stays():
    array = np.arange(24).reshape(SHAPE).astype("float32")
    for operator in (relax.op.negative, lambda x: relax.op.reshape(relax.op.add(x, x), (24,))):
        mod = network(operator, array)
        tvm.ir.assert_structural_equal(fold_views(mod), mod)
