"""Polynomials for exp, tanh and erf: how exact they are, at the bounds as well, and what is left as
it is.
"""

from functools import partial
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


def run(functions, x, target=None):
    """What operators of Relax, as they are tuned, make of a tensor on this machine."""
    target = target or cpu()
    mod = network_of(lambda y: relax.Tuple([function(y) for function in functions]), shape=x.shape)
    return outputs([build(lower(mod, target), target)], [x])[0]


def named(*names):
    return [attrgetter(name)(relax.op) for name in names]


def grid():
    """Where the functions change, densely, and as far as exp is a number; and next to zero."""
    near, far = np.linspace(-6, 6, 30_000), np.linspace(-87, 88, 30_000)
    return (
        np.concatenate([near, far, np.logspace(-30, 0, 1_000)]).astype("float32").reshape(-1, 1_000)
    )


@pytest.fixture(scope="module")
def on_grid():
    """The functions of the grid, by name."""
    return dict(zip(EXACT, run(named(*EXACT), grid())))


@pytest.mark.parametrize("name", EXACT)
def test_they_are_exact_to_a_few_roundings(on_grid, name):
    """Relative to the function; gelu and silu, which cancel, relative to their argument. A softmax
    also rounds its sum.
    """
    x = grid()
    exact = EXACT[name](x.astype("float64"))
    scale = (
        np.abs(x) if name.startswith(("nn.gelu", "nn.silu")) else np.maximum(np.abs(exact), 1e-37)
    )
    error = (np.abs(on_grid[name] - exact) / scale).max()
    assert error < (1e-6 if name == "nn.softmax" else 4e-7)


def powers(x, exponents):
    """Powers of a tensor, and how many of them are products as they are tuned."""
    dtype = str(x.dtype)
    mod = network_of(
        lambda y: relax.Tuple([relax.op.power(y, relax.const(e, dtype)) for e in exponents]),
        shape=x.shape,
        dtype=dtype,
    )
    lowered = lower(mod, cpu())
    return outputs([build(lowered, cpu())], [x])[0], count_changes(lowered)["fast_math"]


def test_powers_to_multiples_of_a_quarter_are_products_of_roots():
    x = np.concatenate([np.logspace(-9, 9, 997), [0.0, np.inf, np.nan]]).astype("float32")
    exponents = [0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.75, 4.0]
    found, changed = powers(x, exponents)
    assert changed == len(exponents)
    for y, exponent in zip(found, exponents):
        np.testing.assert_allclose(y, x.astype("float64") ** exponent, rtol=4e-7)


@pytest.mark.parametrize(
    ("exponents", "dtype"), [([0.3, -0.75, 0.0, 4.25], "float32"), ([0.75], "float64")]
)
def test_other_powers_stay_as_they_are(exponents, dtype):
    x = np.logspace(-2, 2, 100).astype(dtype)
    found, changed = powers(x, exponents)
    assert changed == 0
    for y, exponent in zip(found, exponents):
        np.testing.assert_allclose(y, x**exponent, rtol=1e-6)


def test_powers_of_negative_numbers_are_right():
    found, _ = powers(np.array([-2.0, -1.0], "float32"), [2.0, 3.0, 0.5])
    np.testing.assert_array_equal(found, [[4.0, 1.0], [-8.0, -1.0], [np.nan, np.nan]])


def test_without_fused_multiply_adds_exp_rounds_more():
    x = grid()
    exact = np.exp(x.astype("float64"))
    (found,) = run([relax.op.exp], x, as_target("llvm"))
    errors = np.abs(found - exact) / np.maximum(exact, 1e-37)
    assert 4e-7 < errors.max() < 5e-6


def test_nan_stays_and_the_limits_are_right():
    limits = {
        "exp": [np.nan, np.inf, 0, np.inf, 0],
        "tanh": [np.nan, 1, -1, 1, -1],
        "erf": [np.nan, 1, -1, 1, -1],
        "sigmoid": [np.nan, 1, 0, 1, 0],
    }
    x = np.array([np.nan, np.inf, -np.inf, 1e4, -1e4], dtype="float32")
    np.testing.assert_array_equal(run(named(*limits), x), [*limits.values()])


@pytest.mark.parametrize("shape", [(), (5,), (2, 1, 3), (2, 3, 4, 5), (1, 2, 3, 2, 3)], ids=str)
def test_tensors_may_have_any_number_of_axes(shape):
    x = np.random.default_rng(0).normal(size=shape).astype("float32")
    names = [name for name in EXACT if name != "nn.softmax" or shape]
    for name, y in zip(names, run(named(*names), x)):
        np.testing.assert_allclose(y, EXACT[name](x.astype("float64")), rtol=1e-5, atol=1e-6)


def test_a_softmax_may_be_over_any_axis():
    x = np.random.default_rng(0).normal(size=(2, 3, 4, 5)).astype("float32")
    axes = range(-4, 4)
    functions = [partial(relax.op.nn.softmax, axis=axis) for axis in axes]
    for axis, y in zip(axes, run(functions, x)):
        np.testing.assert_allclose(y, scipy.special.softmax(x, axis=axis), rtol=1e-5)


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
