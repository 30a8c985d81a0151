"""Concatenations without a copy: outputs are the same, and nothing is copied where that can be."""

import numpy as np
import pytest
import tvm
from quick_network_tuning import instant, tune_module
from quick_tuning import outputs
from relax_modules import network_with
from tvm import relax
from tvm.relax import op
from tvm.script import tirx as T
from unoptimized import cpu

from autotvm_opevo.lowering.concat import _write_slice, mark_concats
from autotvm_opevo.lowering.network import build, lower, lower_as_imported
from autotvm_opevo.meta_schedule import compile_network
from autotvm_opevo.meta_schedule.evaluation import random_inputs

_IMAGE = 1, 16, 14, 14


def convolution(emit, x, kernel, outputs=8):
    """With its bias and a relu."""
    rng = np.random.default_rng(outputs + kernel)
    shape = outputs, int(x.ty.shape[1]), kernel, kernel
    weights, bias = (
        relax.const(rng.standard_normal(extents).astype("float32"))
        for extents in (shape, (1, outputs, 1, 1))
    )
    y = emit(op.nn.conv2d(x, weights, padding=kernel // 2))
    return emit(op.nn.relu(emit(op.add(y, bias))))


@network_with(_IMAGE)
def fire(emit, x):
    """As in SqueezeNet; the second convolution is by Winograd's algorithm."""
    y = convolution(emit, x, 1, 16)
    expanded = [convolution(emit, y, 1, 32), convolution(emit, y, 3, 64)]
    return convolution(emit, emit(op.concat(expanded, 1)), 1)


@network_with(_IMAGE)
def inception(emit, x):
    """Four inputs, one of which is pooled first."""
    pooled = emit(op.nn.max_pool2d(x, (3, 3), padding=(1, 1)))
    inputs = [pooled, x, x, x]
    return op.concat([convolution(emit, y, kernel) for y, kernel in zip(inputs, (1, 1, 3, 5))], -3)


@network_with(_IMAGE)
def nested(emit, x):
    inner = emit(op.concat([convolution(emit, x, 1), convolution(emit, x, 3)], 1))
    return convolution(emit, emit(op.nn.relu(inner)), 1, 4)


@network_with(_IMAGE)
def read_late(emit, x):
    """After other tensors of its size, which could take its memory."""
    y = emit(op.concat([convolution(emit, x, 1), convolution(emit, x, 3)], 1))
    z = x
    for kernel in (1, 3, 1, 3):
        z = convolution(emit, z, kernel, 16)
    return op.add(y, z)


@network_with((3, 8), (5, 8), (8, 16))
def rows(emit, x, y, weights):
    """Weights that are not known."""
    return op.concat([emit(op.matmul(y, weights)), emit(op.tanh(emit(op.matmul(x, weights))))], 0)


@network_with((3, 8))
def heads(emit, x):
    """Weights that are packed, the same products, and three inputs."""
    rng = np.random.default_rng(0)
    weights = [relax.const(rng.standard_normal((8, 16)).astype("float32")) for _ in range(3)]
    return op.concat([emit(op.tanh(emit(op.matmul(x, y)))) for y in weights], 1)


@network_with((3, 8), (8, 16), dataflow=False)
def no_dataflow(emit, x, weights):
    return emit(op.concat([emit(op.matmul(x, weights)), emit(op.matmul(x, weights))], 1))


@network_with(*[relax.TensorType(shape, "float16") for shape in ((3, 8), (8, 16))])
def halves(emit, x, weights):
    y = emit(op.matmul(x, weights))
    return op.concat([y, emit(op.matmul(x, weights))], 1)


@network_with((8,), (8, 16))
def vectors(emit, x, weights):
    return op.concat([emit(op.matmul(x, weights)), emit(op.matmul(x, weights))], 0)


@network_with(_IMAGE)
def dense_block(emit, x):
    """As in DenseNet: other operators read the inputs, too."""
    y = convolution(emit, x, 3)
    z = convolution(emit, emit(op.concat([x, y], 1)), 3)
    return op.concat([x, y, z], 1)


@network_with((3, 8), (8, 16))
def twice(emit, x, weights):
    y = emit(op.matmul(x, weights))
    return op.concat([y, y], 0)


@network_with((3, 8), (8, 16))
def with_an_input(emit, x, weights):
    return op.concat([emit(op.matmul(x, weights)), x], 1)


@network_with((3, 8), (8, 16))
def with_a_constant(emit, x, weights):
    return op.concat([emit(op.matmul(x, weights)), relax.const(np.ones((2, 16), "float32"))], 0)


@network_with((3, 8), (5, 8))
def elementwise(emit, x, y):
    """As in rotary embeddings: TVM fuses all of it."""
    return op.nn.relu(emit(op.concat([emit(op.exp(x)), emit(op.negative(y))], 0)))


@network_with((3, 8), (tvm.tirx.Var("n", "int64"), 8), (8, 16))
def symbolic(emit, x, y, weights):
    return op.concat([emit(op.matmul(x, weights)), emit(op.matmul(y, weights))], 0)


def names_of(lowered):
    """The functions of a lowered network, without numbers."""
    return [
        "".join(letter for letter in variable.name_hint if not letter.isdigit())
        for variable, function in lowered.functions.items()
        if isinstance(function, tvm.tirx.PrimFunc)
    ]


def assert_agrees_as_imported(mod, lowered):
    executables = [build(network, cpu()) for network in (lower_as_imported(mod, cpu()), lowered)]
    (expected,), (actual,) = outputs(executables, random_inputs(mod))
    assert actual.dtype == expected.dtype
    np.testing.assert_allclose(actual, expected, rtol=1e-3, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize("mod", [fire, inception, nested, read_late, heads, rows, halves, vectors])
def test_what_computes_an_input_writes_it_to_its_place(mod):
    lowered = lower(mod, cpu())
    assert not any("concatenate" in name for name in names_of(lowered))
    assert_agrees_as_imported(mod, lowered)


def test_an_input_that_becomes_a_constant_is_copied():
    @network_with((3, 8))
    def mod(emit, x):
        weights, y = (relax.const(np.ones(shape, "float32")) for shape in ((8, 16), (2, 8)))
        return op.concat([emit(op.matmul(x, weights)), emit(op.matmul(y, weights))], 0)

    assert_agrees_as_imported(mod, lower_as_imported(mark_concats(mod), cpu()))


def test_a_function_that_writes_by_address_stays():
    @T.prim_func(s_tir=True)
    def by_index(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.sblock("y"):
                v = T.axis.spatial(4, i)
                y[v] = x[v]

    @T.prim_func(s_tir=True)
    def by_address(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")):
        T.evaluate(T.call_extern("int32", "copy", y.data, x.data))

    output = relax.TensorType((8,), "float32")
    assert _write_slice(by_index, output, 0, 4) is not None
    assert _write_slice(by_address, output, 0, 4) is None


def test_alike_inputs_are_one_task():
    """Wherever they go, and whatever is concatenated."""
    names = names_of(lower(heads, cpu()))
    assert names.count("fused_matmul_tir_tanh") == 1


@pytest.mark.parametrize(
    "mod", [dense_block, twice, with_an_input, with_a_constant, elementwise, no_dataflow]
)
def test_other_concatenations_stay(mod, caplog):
    lowered = lower(mod, cpu())
    assert any("concatenate" in name for name in names_of(lowered))
    assert_agrees_as_imported(mod, lowered)
    assert not caplog.text  # or it would be lowered as imported


def test_extents_that_are_not_known_are_no_obstacle():
    assert any("concatenate" in name for name in names_of(lower(symbolic, cpu())))


@pytest.mark.parametrize("mod", [fire, heads])
@pytest.mark.parametrize("trials", [16, pytest.param(100, marks=pytest.mark.soak)])
@pytest.mark.timeout(1200)
def test_whatever_the_schedules_tuned_networks_agree(tmp_path, mod, trials):
    """Also with packed weights."""
    result = tune_module(mod, None, tmp_path, trials, **instant())
    tuned = compile_network(mod, None, cpu(), result.best_file)
    imported = build(lower_as_imported(mod, cpu()), cpu())
    (expected,), (actual,) = outputs([imported, tuned], random_inputs(mod))
    np.testing.assert_allclose(actual, expected, rtol=1e-3, atol=1e-4 * np.abs(expected).max())
