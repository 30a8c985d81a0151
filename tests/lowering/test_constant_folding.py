"""What depends on constants only is computed before a network is lowered."""

import numpy as np
import pytest
from relax_modules import network_of
from tvm import relax

from autotvm_opevo.lowering.rewriting import calls_in, fold_constants, operator_name

SHAPE = (2, 3, 4)
VIEWS = {
    "reshape": (lambda x: relax.op.reshape(x, (4, 6)), lambda x: x.reshape(4, 6)),
    "reversed": (lambda x: relax.op.permute_dims(x), np.transpose),
    "permuted": (lambda x: relax.op.permute_dims(x, (0, 2, 1)), lambda x: x.transpose(0, 2, 1)),
}


def folded(operator, array):
    """The operators that are left of one of a constant, and the constant that is added instead."""
    dtype = str(array.dtype)
    x = network_of(
        lambda x: relax.op.add(x, operator(relax.const(array, dtype))), shape=(1,), dtype=dtype
    )
    calls = calls_in(fold_constants(x))
    (added,) = (argument.value.numpy() for call in calls for argument in call.args[1:])
    return [operator_name(call) for call in calls], added


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "bool"])
@pytest.mark.parametrize("view", VIEWS)
def test_views_of_constants_are_computed_without_a_compiler(monkeypatch, view, dtype):
    monkeypatch.setattr(relax.transform, "FoldConstant", None)
    operator, expected = VIEWS[view]
    array = np.arange(24).reshape(SHAPE).astype(dtype)
    operators, found = folded(operator, array)
    assert operators == ["add"]
    np.testing.assert_array_equal(found, expected(array))


@pytest.mark.parametrize(
    ("operator", "expected"),
    [
        (lambda x: relax.op.add(x, x), lambda x: x + x),
        (lambda x: relax.op.reshape(relax.op.permute_dims(x), (24,)), lambda x: x.T.ravel()),
    ],
)
def test_other_operators_of_constants_are_computed_with_tvm(operator, expected):
    array = np.arange(24).reshape(SHAPE).astype("float32")
    operators, found = folded(operator, array)
    assert operators == ["add"]
    np.testing.assert_array_equal(found, expected(array))
