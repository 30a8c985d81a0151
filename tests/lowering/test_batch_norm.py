"""Batch normalizations of inference are folded into what comes before, or fused into it, and
outputs stay.
"""

import numpy as np
import pytest
import tvm
from quick_tuning import outputs
from relax_modules import calls_of, network_with
from tvm import relax
from unoptimized import cpu

from autotvm_opevo.lowering.network import build, lower, lower_as_imported
from autotvm_opevo.lowering.rewriting import fold_batch_norms
from autotvm_opevo.meta_schedule import as_target
from autotvm_opevo.meta_schedule.evaluation import random_inputs

op = relax.op
RNG = np.random.default_rng(0)


def constant(*shape, dtype="float32"):
    return relax.const(RNG.standard_normal(shape).astype(dtype), dtype)


def statistics(channels, dtype="float32"):
    """Gamma, beta, mean and variance."""
    return [
        *(constant(channels, dtype=dtype) for _ in range(3)),
        relax.const(RNG.uniform(0.5, 2, channels).astype(dtype), dtype),
    ]


def network(shape, layers, dtype="float32"):
    """What `layers` returns of an input, which it gets with a function that binds a value to a
    variable.
    """
    mod = network_with(relax.TensorType(shape, dtype))(layers)
    return relax.transform.FoldConstant()(mod)


def operators(mod):
    """Names of the operators."""
    return [call.op.name.removeprefix("relax.") for call in calls_of(mod)]


def normalized(emit, y, axis=1, channels=8, **options):
    return emit(
        op.nn.batch_norm(y, *statistics(channels), axis=axis, **{"training": False, **options})
    )[0]


def assert_outputs_stay(mod):
    lowered = [way(mod, cpu()) for way in (lower_as_imported, lower)]
    for expected, actual in zip(
        *outputs([build(one, cpu()) for one in lowered], random_inputs(lowered[0]))
    ):
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())


def assert_outputs_of_all_stay(cases, caplog):
    """In one network, which is built once: the shapes of inputs, and what is done to each."""
    shapes, layers = zip(*cases)
    mod = network_with(*shapes)(
        lambda emit, *inputs: relax.Tuple([one(emit, x) for one, x in zip(layers, inputs)])
    )
    assert_outputs_stay(relax.transform.FoldConstant()(mod))
    assert not caplog.text  # or it would be lowered as imported


# The input's shape, what comes before the normalization, and the axis of its channels, of which
# there are 8.
BEFORE = {
    "conv1d": ((2, 4, 12), lambda x: op.nn.conv1d(x, constant(8, 4, 3), padding=1), 1),
    "conv2d": ((1, 4, 6, 10), lambda x: op.nn.conv2d(x, constant(8, 4, 3, 3), padding=1), 1),
    "grouped conv2d": ((1, 4, 6, 6), lambda x: op.nn.conv2d(x, constant(8, 2, 3, 3), groups=2), 1),
    "depthwise conv2d": (
        (1, 8, 6, 6),
        lambda x: op.nn.conv2d(x, constant(8, 1, 3, 3), groups=8),
        -3,
    ),
    "conv2d in NHWC": (
        (1, 6, 6, 4),
        lambda x: op.nn.conv2d(x, constant(3, 3, 4, 8), data_layout="NHWC", kernel_layout="HWIO"),
        3,
    ),
    "conv3d": ((1, 4, 3, 6, 6), lambda x: op.nn.conv3d(x, constant(8, 4, 2, 2, 2)), 1),
    "matmul": ((5, 4), lambda x: op.matmul(x, constant(4, 8)), 1),
    "matmul of a transposed weight": (
        (5, 4),
        lambda x: op.matmul(x, op.permute_dims(constant(8, 4))),
        1,
    ),
    "batched matmul": ((2, 5, 4), lambda x: op.matmul(x, constant(4, 8)), 2),
}

# By name, with a bias and without.
FOLDED = [*((name, True) for name in BEFORE), ("conv2d", False), ("matmul", False)]


def folded(name, biased):
    """A convolution or matrix product, its bias, a normalization and a relu."""
    _, before, axis = BEFORE[name]

    def layers(emit, x):
        y = emit(before(x))
        if biased:
            y = emit(
                op.add(y, constant(*(8 if i == axis % y.ty.ndim else 1 for i in range(y.ty.ndim))))
            )
        return emit(op.nn.relu(normalized(emit, y, axis)))

    return layers


@pytest.mark.parametrize(("name", "biased"), FOLDED)
def test_scales_are_folded_into_the_weights_and_one_sum_is_left(name, biased):
    mod = network(BEFORE[name][0], folded(name, biased))
    (first, *others), expected = operators(fold_batch_norms(mod)), operators(mod)[0]
    assert [first, *others] == [expected, "add", "nn.relu"]


def test_outputs_stay_where_scales_are_folded(caplog):
    assert_outputs_of_all_stay(
        [(BEFORE[name][0], folded(name, biased)) for name, biased in FOLDED], caplog
    )


def with_options(**options):
    return lambda emit, x: normalized(emit, emit(op.nn.conv2d(x, constant(8, 4, 3, 3))), **options)


def test_options_are_taken_into_account(caplog):
    options = {"scale": False}, {"center": False}, {"epsilon": 0.5}
    assert_outputs_of_all_stay([((1, 4, 6, 6), with_options(**one)) for one in options], caplog)


def test_what_follows_is_fused_into_the_convolution():
    mod = network(
        (1, 4, 6, 6),
        lambda emit, x: emit(
            op.nn.relu(normalized(emit, emit(op.nn.conv2d(x, constant(8, 4, 3, 3), padding=1))))
        ),
    )
    for target in (cpu(), as_target("nvidia/geforce-rtx-3090")):
        names = {
            variable.name_hint.rstrip("0123456789") for variable in lower(mod, target).functions
        }
        assert names - {"main", "transpose"} == {"fused_conv2d_add_relu"}


def shared(emit, x):
    """A convolution that is read twice."""
    y = emit(op.nn.conv2d(x, constant(8, 4, 3, 3)))
    return emit(op.add(normalized(emit, y), y))


def returned(emit, x):
    """A sum that is an output, too."""
    y = emit(op.add(emit(op.nn.conv2d(x, constant(8, 4, 3, 3))), constant(1, 8, 1, 1)))
    return relax.Tuple([normalized(emit, y), y])


def image_wide(emit, x):
    """A bias for each pixel."""
    y = emit(op.add(emit(op.nn.conv2d(x, constant(8, 4, 3, 3))), constant(1, 1, 4, 4)))
    return normalized(emit, y)


def of_rows(emit, x):
    """A normalization along another axis than the convolution's channels."""
    return normalized(emit, emit(op.nn.conv2d(x, constant(8, 4, 3, 3))), axis=2, channels=4)


def of_the_input(emit, x):
    return normalized(emit, x, channels=4)


def of_a_part(emit, x):
    return normalized(emit, emit(emit(op.split(x, 2, axis=1))[1]), channels=2)


def of_a_product_of_weights(emit, x):
    """In which a channel of the output is not a channel of the constant."""
    return normalized(emit, emit(op.matmul(constant(4, 6), x)), channels=4)


def all_outputs(emit, x):
    """The mean and the variance, too."""
    return emit(
        op.nn.batch_norm(
            emit(op.nn.conv2d(x, constant(8, 4, 3, 3))), *statistics(8), axis=1, training=False
        )
    )


def known_in_a_run(emit, x):
    """Weights that are not constant."""
    weight = emit(op.reshape(op.strided_slice(x, axes=[2], begin=[0], end=[2]), (4, 4, 3, 1)))
    return normalized(emit, emit(op.nn.conv2d(x, weight)), channels=4)


OTHERS = [
    shared,
    returned,
    image_wide,
    of_rows,
    of_the_input,
    of_a_part,
    of_a_product_of_weights,
    all_outputs,
    known_in_a_run,
]


@pytest.mark.parametrize("layers", OTHERS)
def test_others_become_products_and_sums(layers):
    mod = network((1, 4, 6, 6), layers)
    assert "nn.batch_norm" not in operators(fold_batch_norms(mod))


def test_outputs_of_others_stay(caplog):
    assert_outputs_of_all_stay([((1, 4, 6, 6), layers) for layers in OTHERS], caplog)


def test_in_training_mode_they_stay():
    mod = network((1, 4, 6, 6), lambda emit, x: normalized(emit, x, channels=4, training=True))
    tvm.ir.assert_structural_equal(fold_batch_norms(mod), mod)
    assert_outputs_stay(mod)


def test_with_parameters_that_are_not_bound_they_stay():
    @network_with((1, 4, 6, 6), *[(4,)] * 4)
    def mod(emit, x, *parameters):
        return emit(op.nn.batch_norm(x, *parameters, axis=1, training=False))[0]

    tvm.ir.assert_structural_equal(fold_batch_norms(mod), mod)


@pytest.mark.parametrize(
    "after",
    [
        lambda emit, x: x,
        lambda emit, x: emit(op.nn.conv2d(x, constant(4, 4, 1, 1, dtype="float16"))),
    ],
)
def test_in_float16_they_are_computed_which_tvm_cannot(after):
    def layers(emit, x):
        return emit(op.nn.batch_norm(after(emit, x), *parameters, axis=1, training=False))[0]

    parameters = statistics(4, "float16")
    mod = network((1, 4, 6, 6), layers, "float16")
    lowered = lower(mod, cpu())
    inputs = random_inputs(lowered)
    ((actual,),) = outputs([build(lowered, cpu())], inputs)
    gamma, beta, mean, variance = (
        one.value.numpy().astype("float64").reshape(4, 1, 1) for one in parameters
    )
    assert actual.dtype == np.float16
    if len(operators(mod)) == 1:
        expected = (inputs[0] - mean) / np.sqrt(variance + 1e-5) * gamma + beta
        np.testing.assert_allclose(actual, expected, rtol=1e-2, atol=1e-2)


def test_in_float16_the_difference_of_large_numbers_keeps_its_digits():
    gamma, beta, mean, variance = (
        relax.const(np.full(4, value, "float16")) for value in (1.0, 0.0, 200.0, 0.01)
    )
    mod = network(
        (1, 4, 6, 6),
        lambda emit, x: emit(
            op.nn.batch_norm(x, gamma, beta, mean, variance, axis=1, training=False)
        )[0],
        "float16",
    )
    x = np.full((1, 4, 6, 6), 200.125, "float16")
    ((actual,),) = outputs([build(lower(mod, cpu()), cpu())], [x])
    np.testing.assert_allclose(actual, 1.25, rtol=1e-2)
