"""Polynomials for exp, tanh and erf: how exact they are, at the bounds as well, and what is left as
it is.
"""

from operator import attrgetter

import numpy as np
import pytest
import scipy.special
import tvm
from quick_tuning import outputs
from relax_modules import count_changes, network_of
from tvm import relax

from autotvm_opevo.lowering.fast_math import FAST_MATH
from autotvm_opevo.lowering.network import build, lower, lower_as_imported
from autotvm_opevo.meta_schedule import as_target
from autotvm_opevo.networks import relax as workloads
from benchmarks.workloads import cpu

EXACT = {
    "exp": np.exp,
    "tanh": np.tanh,
    "erf": scipy.special.erf,
    "sigmoid": scipy.special.expit,
    "nn.silu": lambda x: x * scipy.special.expit(x),
    "nn.gelu": lambda x: x * scipy.special.ndtr(x),
    "nn.gelu_tanh": lambda x: 0.5
    * x
    * (1 + np.tanh(np.sqrt(2 / np.pi) * x * (1 + 0.044715 * x**2))),
    "nn.softmax": lambda x: scipy.special.softmax(x, axis=-1),
}


def run(name, x, target=None):
    """An operator of Relax on this machine, as it is tuned."""
    target = target or cpu()
    mod, _ = workloads.operator(name, [x.shape], str(x.dtype))
    return outputs([build(lower(mod, target), target)], [x])[0][0]


def grid():
    """Where the functions change, densely, and as far as exp is a number; and next to zero."""
    near, far = np.linspace(-6, 6, 30_000), np.linspace(-87, 88, 30_000)
    return (
        np.concatenate([near, far, np.logspace(-30, 0, 1_000)]).astype("float32").reshape(-1, 1_000)
    )


@pytest.mark.parametrize("name", EXACT)
def test_they_are_exact_to_a_few_roundings(name):
    """Relative to the function; gelu and silu, which cancel, relative to their argument. A softmax
    also rounds its sum.
    """
    x = grid()
    exact = EXACT[name](x.astype("float64"))
    scale = (
        np.abs(x) if name.startswith(("nn.gelu", "nn.silu")) else np.maximum(np.abs(exact), 1e-37)
    )
    assert (np.abs(run(name, x) - exact) / scale).max() < (1e-6 if name == "nn.softmax" else 4e-7)


def power(x, exponent):
    """The network, and the names of its operators' blocks as they are tuned."""
    dtype = str(x.dtype)
    mod = network_of(
        lambda y: relax.op.power(y, relax.const(exponent, dtype)), shape=x.shape, dtype=dtype
    )
    lowered = lower(mod, cpu())
    return outputs([build(lowered, cpu())], [x])[0][0], count_changes(lowered)["fast_math"]


@pytest.mark.parametrize("exponent", [0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.75, 4.0])
def test_powers_to_multiples_of_a_quarter_are_products_of_roots(exponent):
    x = np.concatenate([np.logspace(-9, 9, 997), [0.0, np.inf, np.nan]]).astype("float32")
    found, changed = power(x, exponent)
    assert changed == 1
    np.testing.assert_allclose(found, x.astype("float64") ** exponent, rtol=4e-7)


@pytest.mark.parametrize(
    ("exponent", "dtype"),
    [(0.3, "float32"), (-0.75, "float32"), (0.0, "float32"), (4.25, "float32"), (0.75, "float64")],
)
def test_other_powers_stay_as_they_are(exponent, dtype):
    x = np.logspace(-2, 2, 100).astype(dtype)
    found, changed = power(x, exponent)
    assert changed == 0
    np.testing.assert_allclose(found, x**exponent, rtol=1e-6)


@pytest.mark.parametrize(
    ("exponent", "expected"), [(2.0, [4.0, 1.0]), (3.0, [-8.0, -1.0]), (0.5, [np.nan, np.nan])]
)
def test_powers_of_negative_numbers_are_right(exponent, expected):
    np.testing.assert_array_equal(power(np.array([-2.0, -1.0], "float32"), exponent)[0], expected)


def test_without_fused_multiply_adds_exp_rounds_more():
    x = grid()
    exact = np.exp(x.astype("float64"))
    errors = np.abs(run("exp", x, as_target("llvm")) - exact) / np.maximum(exact, 1e-37)
    assert 4e-7 < errors.max() < 5e-6


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("exp", [np.nan, np.inf, 0, np.inf, 0]),
        ("tanh", [np.nan, 1, -1, 1, -1]),
        ("erf", [np.nan, 1, -1, 1, -1]),
        ("sigmoid", [np.nan, 1, 0, 1, 0]),
    ],
)
def test_nan_stays_and_the_limits_are_right(name, expected):
    x = np.array([[np.nan, np.inf, -np.inf, 1e4, -1e4]], dtype="float32")
    np.testing.assert_array_equal(run(name, x), [expected])


@pytest.mark.parametrize("shape", [(), (5,), (2, 1, 3), (2, 3, 4, 5), (1, 2, 3, 2, 3)], ids=str)
def test_tensors_may_have_any_number_of_axes(shape):
    x = np.random.default_rng(0).normal(size=shape).astype("float32")
    names = [name for name in EXACT if name != "nn.softmax" or shape]
    functions = [attrgetter(name)(relax.op) for name in names]
    mod = network_of(lambda y: relax.Tuple([function(y) for function in functions]), shape=shape)
    (found,) = outputs([build(lower(mod, cpu()), cpu())], [x])
    for name, y in zip(names, found):
        np.testing.assert_allclose(y, EXACT[name](x.astype("float64")), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("axis", range(-4, 4))
def test_a_softmax_may_be_over_any_axis(axis):
    x = np.random.default_rng(0).normal(size=(2, 3, 4, 5)).astype("float32")
    mod, _ = workloads.operator("nn.softmax", [x.shape], attributes={"axis": axis})
    ((found,),) = outputs([build(lower(mod, cpu()), cpu())], [x])
    np.testing.assert_allclose(found, scipy.special.softmax(x, axis=axis), rtol=1e-5)


@pytest.mark.parametrize("name", EXACT)
def test_no_function_is_left_that_would_be_a_call(name):
    mod, _ = workloads.operator(name, [(4, 8)])
    imported, lowered = (
        any(
            f"T.{function}(" in way(mod, cpu()).script()
            for function in ("exp", "tanh", "erf", "sigmoid")
        )
        for way in (lower_as_imported, lower)
    )
    assert (imported, lowered) == (True, False)
    assert count_changes(lower(mod, cpu()))["fast_math"] == 1
    assert count_changes(lower_as_imported(mod, cpu()))["fast_math"] == 0


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_other_types_are_legalized_as_by_tvm(name, dtype):
    mod, _ = workloads.operator(name, [(4, 8)], dtype)
    tvm.ir.assert_structural_equal(
        relax.transform.LegalizeOps(FAST_MATH)(mod), relax.transform.LegalizeOps()(mod)
    )
