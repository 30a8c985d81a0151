"""Conversion of convolutions to NHWC: what is converted, what stays, and that outputs are the
same.
"""

from math import prod

import numpy as np
import pytest
import tvm
from quick_tuning import outputs
from relax_modules import calls_of, count_changes, network_of, network_with
from tvm import relax
from tvm.relax import op
from unoptimized import cpu

from autotvm_opevo.lowering import channels_last
from autotvm_opevo.lowering.channels_last import with_channels_last
from autotvm_opevo.lowering.entry import bind_params
from autotvm_opevo.lowering.network import build, lower, lower_as_imported, with_packable_weights
from autotvm_opevo.meta_schedule.evaluation import random_inputs
from autotvm_opevo.networks import relax as workloads

CPU = cpu()


def constant(rng, *shape, scale=1.0):
    return relax.const((scale * rng.standard_normal(shape)).astype("float32"))


def positive(rng, *shape):
    return relax.const(rng.uniform(0.5, 1.5, shape).astype("float32"))


def shape_of(y):
    return [int(extent) for extent in y.ty.shape]


def any_axis(rng, ndim=4):
    """One of them, counted from either end."""
    return int(rng.integers(-ndim, ndim))


def some_axes(rng):
    axes = rng.permutation(4)[: rng.integers(1, 5)]
    return [int(axis) - 4 * int(rng.integers(2)) for axis in axes]


def broadcast(rng, y):
    """A constant that can be broadcast to an image, with up to four axes."""
    shape = [extent if rng.integers(2) else 1 for extent in shape_of(y)]
    return positive(rng, *shape[rng.integers(5) :])


def unary(function):
    return lambda y, rng: function(y)


def binary(function):
    """Of an image and what is broadcast to it, a scalar, or another image, in either order."""

    def follow(y, rng):
        arguments = [op.add(op.abs(y), relax.const(0.5, "float32")), broadcast(rng, y)]
        return function(*(arguments[i] for i in rng.permutation(2)))

    return follow


def pool(function):
    def follow(y, rng):
        options = {
            "padding": tuple(int(n) for n in rng.integers(0, 2, 4)),
            "ceil_mode": bool(rng.integers(2)),
        }
        options |= {
            "strides": tuple(int(n) for n in rng.integers(1, 3, 2)),
            "count_include_pad": bool(rng.integers(2)),
        }
        return function(y, pool_size=tuple(int(n) for n in rng.integers(2, 4, 2)), **options)

    return follow


def reduction(function):
    def follow(y, rng):
        return function(
            y, some_axes(rng) if rng.integers(5) else None, keepdims=bool(rng.integers(2))
        )

    return follow


def batch_norm(y, rng):
    # TVM cannot train with a negative axis
    axis, training = int(rng.integers(4)), bool(rng.integers(2))
    parameters = [positive(rng, shape_of(y)[axis]) for _ in range(4)]
    return op.nn.batch_norm(y, *parameters, axis=axis if training else axis - 4, training=training)


def pad(y, rng):
    mode = rng.choice(["constant", "reflect", "replicate", "circular"])
    width = [int(n) for n in rng.integers(0, 3, 4)]
    return op.nn.pad(
        y,
        [0, 0, *rng.integers(0, 2, 2), *width] if mode == "constant" else [0] * 4 + width,
        mode,
        0.5,
    )


def resize2d(y, rng):
    options = {
        "method": rng.choice(["nearest_neighbor", "linear", "cubic"]),
        "coordinate_transformation_mode": rng.choice(["half_pixel", "align_corners", "asymmetric"]),
        "rounding_method": "floor",
    }
    return op.image.resize2d(
        y, tuple(int(n) for n in rng.integers(3, 20, 2)), layout="NCHW", **options
    )


def quantize(y, rng):
    axis = any_axis(rng)
    scale = positive(rng, shape_of(y)[axis]) if rng.integers(2) else relax.const(0.25, "float32")
    return op.quantize(y, scale, relax.const(3, "int8"), axis, "int8")


def dequantize(y, rng):
    axis = any_axis(rng)
    scale = positive(rng, shape_of(y)[axis]) if rng.integers(2) else relax.const(0.25, "float32")
    # 1, the limit of tanh, must not become an integer, below which another rounding would be
    return op.dequantize(
        op.astype(op.multiply(y, relax.const(3.7, "float32")), "int8"),
        scale,
        relax.const(3, "int8"),
        axis,
    )


def conv2d(y, rng):
    channels = shape_of(y)[1]
    groups = int(rng.choice([1, 2, channels]))
    weight = constant(rng, 2 * channels, channels // groups, *rng.integers(1, 4, 2), scale=0.3)
    options = {
        "padding": tuple(int(n) for n in rng.integers(0, 3, 4)),
        "dilation": tuple(int(n) for n in rng.integers(1, 3, 2)),
    }
    return op.nn.conv2d(
        y, weight, strides=tuple(int(n) for n in rng.integers(1, 3, 2)), groups=groups, **options
    )


def split(y, rng):
    axis = any_axis(rng)
    extent = shape_of(y)[axis]
    # TVM fails with others
    sections = int(rng.choice([n for n in range(1, extent + 1) if extent % n == 0]))
    return op.split(
        y,
        sections if rng.integers(2) else [int(rng.integers(1, extent))] if extent > 1 else [],
        axis,
    )


def normalization(function, **options):
    """Of an image, or of several together, with parameters of the channels."""

    def follow(y, rng):
        axes = [
            int(axis) - 4 * int(rng.integers(2))
            for axis in rng.permutation([2, 3] if rng.integers(2) else [0, 2, 3])
        ]
        channels = shape_of(y)[1]
        return function(
            y,
            positive(rng, channels),
            positive(rng, channels),
            channel_axis=1,
            axes=axes,
            **options,
        )

    return follow


def broadcast_to(y, rng):
    axes = some_axes(rng)
    return op.broadcast_to(op.sum(y, axes, keepdims=True), shape_of(y))


def strided_slice(y, rng):
    axes = some_axes(rng)
    ends = [shape_of(y)[axis] for axis in axes]
    begins = [int(rng.integers(end)) for end in ends]
    strides = [int(n) for n in rng.integers(1, 3, len(axes))] if rng.integers(2) else None
    return op.strided_slice(y, axes, begins, ends, strides)


def rearrangement(y, rng):
    """Axes that are split, permuted and merged, as in a channel shuffle or a depth to space."""
    parts = []
    for extent in shape_of(y):
        first = int(rng.choice([n for n in range(1, extent + 1) if extent % n == 0]))
        parts += [first, extent // first] if rng.integers(2) else [extent]
    order = [int(axis) - len(parts) * int(rng.integers(2)) for axis in rng.permutation(len(parts))]
    cuts = [0, *sorted(int(n) for n in rng.integers(len(parts) + 1, size=3)), len(parts)]
    merged = [prod(parts[axis] for axis in order[start:end]) for start, end in zip(cuts, cuts[1:])]
    return op.reshape(op.permute_dims(op.reshape(y, parts), order), merged)


# What is done to an image in NHWC, with attributes drawn at random.
CONVERTED = {
    **{
        name: unary(getattr(op, name))
        for name in ("abs", "ceil", "erf", "exp", "floor", "negative", "round", "sigmoid", "sign")
    },
    **{name: unary(getattr(op, name)) for name in ("square", "tanh")},
    **{
        name: unary(lambda y, name=name: getattr(op, name)(op.abs(y)))
        for name in ("log", "rsqrt", "sqrt")
    },
    **{
        f"nn.{name}": unary(getattr(op.nn, name))
        for name in ("gelu", "gelu_tanh", "relu", "selu", "silu", "softplus")
    },
    "nn.leakyrelu": unary(lambda y: op.nn.leakyrelu(y, 0.2)),
    "astype": lambda y, rng: op.astype(y, str(rng.choice(["float64", "float16", "int32"]))),
    "clip": unary(lambda y: op.clip(y, -0.5, 0.7)),
    **{
        name: binary(getattr(op, name))
        for name in ("add", "divide", "maximum", "minimum", "multiply", "power", "subtract")
    },
    "concat": lambda y, rng: op.concat([y, op.nn.relu(y), y], any_axis(rng)),
    "nn.conv2d": conv2d,
    "permute_dims": lambda y, rng: op.permute_dims(
        y, [int(axis) for axis in rng.permutation(4)] if rng.integers(4) else None
    ),
    "nn.max_pool2d": pool(op.nn.max_pool2d),
    "nn.avg_pool2d": pool(op.nn.avg_pool2d),
    "nn.adaptive_avg_pool2d": lambda y, rng: op.nn.adaptive_avg_pool2d(
        y, tuple(int(n) for n in rng.integers(1, 5, 2))
    ),
    **{name: reduction(getattr(op, name)) for name in ("max", "mean", "min", "sum")},
    "nn.batch_norm": batch_norm,
    "nn.pad": pad,
    "nn.prelu": lambda y, rng: (
        lambda axis: op.nn.prelu(y, constant(rng, shape_of(y)[axis]), axis)
    )(int(rng.integers(4))),
    "nn.softmax": lambda y, rng: op.nn.softmax(y, any_axis(rng)),
    "broadcast_to": broadcast_to,
    "reshape": rearrangement,
    "image.resize2d": resize2d,
    "nn.dropout": lambda y, rng: op.nn.dropout(y),
    "nn.group_norm": normalization(op.nn.group_norm, num_groups=2),
    "nn.instance_norm": normalization(op.nn.instance_norm),
    "strided_slice": strided_slice,
    "split": split,
    "quantize": quantize,
    "dequantize": dequantize,
}

# What reads an image in NCHW, of eight channels and eight rows and columns: a wrong axis would be
# no error.
OTHERS = {
    "argmax": lambda y, rng: op.argmax(y, any_axis(rng), keepdims=bool(rng.integers(2))),
    "broadcast_to five axes": lambda y, rng: op.broadcast_to(y, (3, *shape_of(y))),
    "conv2d_transpose": lambda y, rng: op.nn.conv2d_transpose(
        y, constant(rng, 8, 4, 2, 2), strides=(2, 2)
    ),
    "cumsum": lambda y, rng: op.cumsum(y, any_axis(rng)),
    "expand_dims": lambda y, rng: op.expand_dims(y, any_axis(rng, 5)),
    "flatten": lambda y, rng: op.flatten(y),
    "flip": lambda y, rng: op.flip(y, any_axis(rng)),
    "gather_elements": lambda y, rng: op.gather_elements(
        y, relax.const(rng.integers(0, 8, (1, 8, 8, 8))), int(rng.integers(1, 4))
    ),
    "layer_norm": lambda y, rng: op.nn.layer_norm(
        y, constant(rng, 8, 8, 8), constant(rng, 8, 8, 8), axes=[1, 2, 3]
    ),
    "layer_norm of columns": lambda y, rng: op.nn.layer_norm(
        y, constant(rng, 8), constant(rng, 8), axes=[-1]
    ),
    "log_softmax": lambda y, rng: op.nn.log_softmax(y, any_axis(rng)),
    "matmul": lambda y, rng: op.matmul(y, constant(rng, 8, 8)),
    "repeat": lambda y, rng: op.repeat(y, 2, any_axis(rng)),
    "reshape": lambda y, rng: op.reshape(y, (4, 2, 64)),
    "rms_norm": lambda y, rng: op.nn.rms_norm(y, constant(rng, 8), axes=[-1]),
    "scatter_elements": lambda y, rng: op.scatter_elements(
        y, relax.const(rng.integers(0, 8, (1, 2, 2, 2))), positive(rng, 1, 2, 2, 2), 1
    ),
    "sort": lambda y, rng: op.sort(y, int(rng.integers(4))),
    "squeeze": lambda y, rng: op.squeeze(y, [0]),
    "squeeze of all": lambda y, rng: op.squeeze(op.mean(y, [2, 3], keepdims=True)),
    "stack": lambda y, rng: op.stack([y, op.nn.relu(y)], any_axis(rng, 5)),
    "std": lambda y, rng: op.std(y, some_axes(rng)),
    "take": lambda y, rng: op.take(y, relax.const(np.array([3, 1])), int(rng.integers(1, 4))),
    "sum of a stack": lambda y, rng: op.sum(
        op.stack([y, op.nn.relu(y)], int(rng.integers(2))), any_axis(rng, 5)
    ),
    "tile": lambda y, rng: op.tile(
        y, [int(n) for n in rng.integers(1, 3, int(rng.integers(1, 6)))]
    ),
    "variance": lambda y, rng: op.variance(y, some_axes(rng)),
    "where": lambda y, rng: op.where(op.greater(y, constant(rng, 8, 8)), y, constant(rng, 8, 1, 1)),
    "five axes": lambda y, rng: op.add(y, constant(rng, 2, 1, 8, 1, 1)),
}


class Network:
    """A network that is written while it is built: each call of `emit` is an operator."""

    def __init__(self, rng, *shape):
        self.rng = rng
        self._x = relax.Var("x", relax.TensorType(shape, "float32"))
        self._blocks = relax.BlockBuilder()
        self._bindings = []

    def build(self, write):
        """The module of the function that `write` writes; it takes this network and its input and
        returns its outputs.
        """
        with self._blocks.function("main", [self._x]):
            with self._blocks.dataflow():
                outputs = write(self, self._x)
                result = self._blocks.emit_output(
                    outputs[0] if len(outputs) == 1 else relax.Tuple(outputs)
                )
            self._blocks.emit_func_output(result)
        return self._blocks.finalize()

    def emit(self, value):
        return self._blocks.emit(value)

    def conv2d(self, x, channels, kernel=3, padding=1, **options):
        inputs = shape_of(x)[1] // options.get("groups", 1)
        weight = constant(
            self.rng, channels, inputs, kernel, kernel, scale=(inputs * kernel**2) ** -0.5
        )
        return self.emit(op.nn.conv2d(x, weight, padding=padding, **options))


def convert(mod):
    """Converted to NHWC, and cleaned up."""
    return relax.transform.FoldConstant()(with_channels_last(mod))


def count(mod, name):
    """Calls of an operator in a network."""
    return len(calls_of(mod, name))


def kernel_layouts(mod):
    return [str(call.attrs.kernel_layout) for call in calls_of(mod, "nn.conv2d")]


def assert_lowering_keeps_outputs(mod, weights=None, target=CPU, tolerance=1e-4):
    """Outputs of a network as imported, and lowered for tuning; returns the latter."""
    imported, lowered = (
        way(bind_params(mod, weights), target) for way in (lower_as_imported, lower)
    )
    expected, found = outputs(
        [build(one, target) for one in (imported, lowered)], random_inputs(imported)
    )
    assert [array.shape for array in found] == [array.shape for array in expected]
    for x, y in zip(expected, found):
        np.testing.assert_allclose(y, x, rtol=10 * tolerance, atol=tolerance)
    return lowered


def test_each_operator_that_is_converted_is_tested_here():
    elementwise = channels_last.ELEMENTWISE
    assert set(CONVERTED) == elementwise | set(channels_last._RULES) | {
        "concat",
        "nn.conv2d",
        "permute_dims",
        "reshape",
    }


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, 30))]
)
def test_converted_operators_compute_the_same_with_any_attributes(seed):
    rng = np.random.default_rng(seed)
    shape = [int(n) for n in rng.integers(1, 4, 1)] + [4] + [int(n) for n in rng.integers(5, 10, 2)]

    def write(net, x):
        y = net.conv2d(x, 6)
        return [net.emit(follow(y, rng)) for follow in CONVERTED.values()]

    mod = Network(rng, *shape).build(write)
    assert set(kernel_layouts(convert(mod))) == {"HWIO"}
    assert_lowering_keeps_outputs(mod)


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, 30))]
)
def test_other_operators_read_what_they_would(seed):
    rng = np.random.default_rng(seed)

    def write(net, x):
        y = net.conv2d(x, 8)
        return [net.emit(follow(y, rng)) for follow in OTHERS.values()]

    lowered = assert_lowering_keeps_outputs(Network(rng, 1, 3, 8, 8).build(write))
    assert count_changes(lowered)["nhwc"] >= 1


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, 100))]
)
def test_networks_of_any_operators_compute_the_same(seed):
    """Operators drawn at random, each of images that others have made: some in NHWC, some not, many
    read several times.
    """
    rng = np.random.default_rng(seed)
    names = [*CONVERTED, *OTHERS]

    def write(net, x):
        images = [x, net.conv2d(x, 8)]
        results = []
        while len(results) < 20:
            y, z = (images[i] for i in rng.integers(len(images), size=2))
            name = rng.choice(["a convolution", "a sum", *names])
            if name == "a convolution":
                result = net.conv2d(y, 8)
            elif name == "a sum":
                result = net.emit(op.add(y, z))
            else:
                result = net.emit({**CONVERTED, **OTHERS}[name](y, rng))
            results.append(result)
            if (
                isinstance(result.ty, relax.TensorType)
                and shape_of(result) == [1, 8, 8, 8]
                and result.ty.dtype == "float32"
            ):
                images.append(net.emit(op.tanh(result)))  # or powers of powers would be infinite
        return results

    assert_lowering_keeps_outputs(Network(rng, 1, 8, 8, 8).build(write), tolerance=1e-3)


@pytest.mark.parametrize("name", CONVERTED)
def test_there_is_no_transpose_before_an_operator_that_is_converted(name):
    """Other than of the input; and of what it returns, if that is an image. A rearrangement has one
    of its own.
    """
    rng = np.random.default_rng(0)

    def write(net, x):
        y = net.emit(CONVERTED[name](net.conv2d(x, 4), rng))
        return [y if isinstance(y.ty, relax.TensorType) else net.emit(relax.TupleGetItem(y, 0))]

    converted = convert(Network(rng, 2, 3, 7, 9).build(write))
    expected = 1 if len(converted["main"].ret_ty.shape) < 4 else 2
    assert count(converted, "permute_dims") == expected + (name == "reshape")


def test_a_broadcast_that_changes_nothing_is_left_out():
    """An activation would not be fused into the convolution before it."""

    def write(net, x):
        y = net.emit(op.broadcast_to(net.conv2d(x, 8), (1, 8, 8, 8)))
        return [net.emit(op.nn.relu(net.emit(op.add(y, net.conv2d(x, 8)))))]

    mod = Network(np.random.default_rng(0), 1, 3, 8, 8).build(write)
    assert count(convert(mod), "broadcast_to") == 0
    lowered = assert_lowering_keeps_outputs(mod)
    assert any("add_relu" in variable.name_hint for variable in lowered.functions)


def blocks_of(name):
    """Parts of well-known networks, from one image in NHWC to another, of 16 channels."""

    def residual(net, x):
        y = net.conv2d(net.emit(op.nn.relu(net.conv2d(x, 16))), 16)
        return op.nn.relu(net.emit(op.add(y, x)))

    def residual_of_onnx(net, x):
        y = net.emit(op.broadcast_to(net.conv2d(x, 16), (1, 16, 16, 16)))
        return op.nn.relu(op.sum(net.emit(op.stack([y, x, y], axis=0)), axis=[0]))

    def mobilenet_v3(net, x):
        y = net.conv2d(net.conv2d(x, 32, 1, 0), 32, groups=32)
        y = net.emit(
            op.multiply(y, op.divide(op.clip(op.add(y, relax.const(3.0)), 0, 6), relax.const(6.0)))
        )
        gate = net.emit(op.nn.relu(net.conv2d(net.emit(op.nn.adaptive_avg_pool2d(y, 1)), 8, 1, 0)))
        gate = net.emit(op.sigmoid(net.conv2d(gate, 32, 1, 0)))
        return op.add(net.conv2d(net.emit(op.multiply(y, gate)), 16, 1, 0), x)

    def densenet(net, x):
        parameters = [positive(net.rng, 16) for _ in range(4)]
        y = net.emit(op.nn.batch_norm(x, *parameters, axis=1, training=False))
        y = net.conv2d(net.emit(op.nn.relu(net.emit(relax.TupleGetItem(y, 0)))), 8)
        return op.nn.avg_pool2d(
            net.conv2d(net.emit(op.concat([x, y], 1)), 16, 1, 0), (2, 2), (2, 2)
        )

    def inception(net, x):
        pooled = net.conv2d(
            net.emit(op.nn.avg_pool2d(x, (3, 3), padding=1, count_include_pad=True)), 4, 1, 0
        )
        wide = net.conv2d(net.emit(op.nn.pad(x, [0, 0, 0, 0, 1, 1, 1, 1])), 6, padding=0)
        return op.concat([pooled, wide, net.conv2d(x, 6, 1, 0)], axis=-3)

    def shufflenet(net, x):
        left = net.emit(op.split(x, 2, axis=1))
        left, right = (net.emit(relax.TupleGetItem(left, i)) for i in range(2))
        y = net.emit(op.concat([left, net.conv2d(right, 8, groups=8)], 1))
        y = net.emit(op.permute_dims(net.emit(op.reshape(y, (1, 2, 8, 16, 16))), [0, 2, 1, 3, 4]))
        return op.reshape(y, (1, 16, 16, 16))

    def upsampling(net, x):
        y = net.conv2d(net.emit(op.nn.max_pool2d(x, (2, 2), (2, 2))), 16)
        return op.nn.leakyrelu(
            op.concat([x, op.image.resize2d(y, (16, 16), method="nearest_neighbor")], 1)
        )

    def depth_to_space(net, x):
        y = net.emit(op.reshape(net.conv2d(x, 64), (1, 16, 2, 2, 16, 16)))
        return op.reshape(net.emit(op.permute_dims(y, [0, 1, 4, 2, 5, 3])), (1, 16, 32, 32))

    return locals()[name]


REARRANGED = "shufflenet", "depth_to_space"
WELL_KNOWN = [
    "residual",
    "residual_of_onnx",
    "mobilenet_v3",
    "densenet",
    "inception",
    "upsampling",
    *REARRANGED,
]


def well_known(*names):
    """Each between convolutions."""

    def write(net, x):
        return [net.conv2d(net.emit(blocks_of(name)(net, net.conv2d(x, 16))), 8) for name in names]

    return Network(np.random.default_rng(0), 1, 3, 16, 16).build(write)


@pytest.mark.parametrize("name", WELL_KNOWN)
def test_well_known_networks_are_transposed_at_their_ends_only(name):
    converted = convert(well_known(name))
    assert set(kernel_layouts(converted)) == {"HWIO"}
    assert count(converted, "permute_dims") == 2 + (name in REARRANGED)


def test_well_known_networks_compute_the_same():
    """All in one, which is built once."""
    lowered = assert_lowering_keeps_outputs(well_known(*WELL_KNOWN))
    assert count_changes(lowered)["nhwc"]  # or it would be lowered as imported


def test_a_transposed_convolution_stays_between_those_in_nhwc():
    """As in a U-Net; TVM can compile it in NCHW only."""

    def write(net, x):
        left = net.emit(op.nn.relu(net.conv2d(x, 8)))
        y = net.emit(op.nn.relu(net.conv2d(net.emit(op.nn.max_pool2d(left, (2, 2), (2, 2))), 8)))
        y = net.emit(op.nn.conv2d_transpose(y, constant(net.rng, 8, 8, 2, 2), strides=(2, 2)))
        return [net.conv2d(net.emit(op.concat([left, y], 1)), 4)]

    mod = Network(np.random.default_rng(0), 1, 3, 16, 16).build(write)
    assert kernel_layouts(convert(mod)) == ["HWIO"] * 3
    assert count(convert(mod), "permute_dims") == 4
    assert count_changes(assert_lowering_keeps_outputs(mod))["nhwc"] == 3


def test_an_image_that_is_in_nhwc_is_not_transposed_for_a_convolution():
    """Networks of TensorFlow have transposes of their own; and ConvNeXt, around what it does to
    channels.
    """

    def write(net, x):
        y = net.conv2d(net.emit(op.permute_dims(x, [0, 3, 1, 2])), 8)
        z = net.emit(
            op.nn.layer_norm(
                op.permute_dims(y, [0, 2, 3, 1]),
                positive(net.rng, 8),
                positive(net.rng, 8),
                axes=[-1],
            )
        )
        return [net.conv2d(net.emit(op.add(net.emit(op.permute_dims(z, [0, -1, 1, 2])), y)), 8)]

    mod = Network(np.random.default_rng(0), 1, 9, 9, 4).build(write)
    assert kernel_layouts(convert(mod)) == ["HWIO"] * 2
    assert count(convert(mod), "permute_dims") == 2  # one of them leaves the axes as they are
    assert_lowering_keeps_outputs(mod)


@pytest.mark.parametrize(("name", "transposes"), [("alexnet", 2), ("resnet-18", 1), ("mlp", 0)])
def test_networks_of_this_package_are_converted_as_a_whole(name, transposes):
    mod, weights = workloads.network(name)
    bound = relax.transform.FoldConstant()(relax.transform.BindParams("main", weights)(mod))
    converted = convert(bound)
    assert kernel_layouts(converted) == ["HWIO"] * count(mod, "nn.conv2d")
    assert count(converted, "permute_dims") == transposes


def two_convolutions(derive=lambda weight: weight):
    """Two convolutions, pooled, and a dense layer; and the weights, of which the second
    convolution's is derived from its own.
    """
    shapes = (8, 8, 3, 3), (4, 8, 1, 1), (100, 3)

    @network_with((1, 8, 10, 10), *shapes)
    def mod(emit, x, first, second, dense):
        y = emit(op.nn.relu(emit(op.nn.conv2d(x, first, padding=1))))
        y = emit(op.nn.max_pool2d(y, pool_size=(2, 2), strides=(2, 2)))
        y = emit(op.nn.conv2d(y, emit(derive(second))))
        return op.matmul(emit(op.reshape(y, (1, 100))), dense)

    rng = np.random.default_rng(0)
    weights = {
        f"x{i}": tvm.runtime.tensor(rng.standard_normal(shape).astype("float32"))
        for i, shape in enumerate(shapes, start=1)
    }
    return relax.transform.CanonicalizeBindings()(mod), weights


def test_operators_in_other_layouts_are_counted():
    """Two convolutions and a dense layer, all with constant weights; without these, nothing is
    converted.
    """
    mod, weights = two_convolutions()
    bound, none = bind_params(mod, weights), {"nhwc": 0, "packed": 0, "winograd": 0, "fast_math": 0}
    assert count_changes(lower(bound, CPU)) == {**none, "nhwc": 2, "packed": 3}
    assert count_changes(lower(mod, CPU)) == none
    assert count_changes(lower_as_imported(bound, CPU)) == none


@pytest.mark.parametrize(
    "derive", [lambda weight: weight, relax.op.abs], ids=["argument", "of an argument"]
)
def test_weights_that_are_known_in_a_run_only_are_not_converted_in_each(derive):
    mod, weights = two_convolutions(derive=derive)
    del weights["x2"]
    bound = relax.transform.BindParams("main", weights)(mod)
    assert kernel_layouts(convert(bound)) == ["HWIO", "OIHW"]
    assert_lowering_keeps_outputs(mod, weights)


def test_weights_that_follow_from_constants_are_converted():
    mod, weights = two_convolutions(derive=relax.op.abs)
    assert count_changes(assert_lowering_keeps_outputs(mod, weights))["nhwc"] == 2


@pytest.mark.parametrize("dtype", ["float16", "float64", "int8"])
def test_convolutions_of_other_types_are_converted(dtype):
    rng = np.random.default_rng(0)
    weight = relax.const(rng.integers(-3, 3, (4, 3, 3, 3)).astype(dtype), dtype)
    out_dtype = "int32" if dtype == "int8" else None
    mod = network_of(
        lambda x: op.nn.conv2d(x, weight, out_dtype=out_dtype),
        op.nn.relu,
        shape=(1, 3, 9, 7),
        dtype=dtype,
    )
    assert count_changes(assert_lowering_keeps_outputs(mod, tolerance=1e-2))["nhwc"] == 1


WEIGHT = relax.const(np.ones((4, 4, 3, 3), "float32"))


@pytest.mark.parametrize(
    "mod",
    [
        network_with((1, 4, 8), (5, 4, 3))(
            lambda emit, x, w: op.nn.conv1d(x, relax.const(np.ones((5, 4, 3), "float32")))
        ),
        network_with((1, 4, 8, 8, 8))(
            lambda emit, x: op.nn.conv3d(x, relax.const(np.ones((5, 4, 3, 3, 3), "float32")))
        ),
        network_with((1, 8, 8, 3))(
            lambda emit, x: op.nn.conv2d(x, WEIGHT, data_layout="NHWC", kernel_layout="OHWI")
        ),
        network_with((1, 8, 8, 3))(
            lambda emit, x: op.nn.conv2d(x, WEIGHT, data_layout="NHWC", kernel_layout="HWIO")
        ),
        network_with((tvm.tirx.Var("n", "int64"), 4, 8, 8))(
            lambda emit, x: op.nn.relu(op.nn.conv2d(x, WEIGHT))
        ),
        network_with((1, 4, tvm.tirx.Var("h", "int64"), 8))(
            lambda emit, x: op.nn.relu(op.nn.conv2d(x, WEIGHT))
        ),
        network_with((1, 4, 8, 8), dataflow=False)(
            lambda emit, x: op.nn.relu(op.nn.conv2d(x, WEIGHT))
        ),
        network_with((1, 4, 8, 8), (4, 4, 3, 3))(lambda emit, x, w: op.nn.relu(op.nn.conv2d(x, w))),
        network_with((1, 8, 8, 4))(lambda emit, x: op.nn.relu(op.permute_dims(x, [0, 3, 1, 2]))),
    ],
    ids=[
        "1-d",
        "3-d",
        "OHWI",
        "HWIO",
        "batch",
        "height",
        "no dataflow",
        "weights",
        "no convolution",
    ],
)
def test_what_is_not_converted_stays_as_it_is(mod, caplog):
    tvm.ir.assert_structural_equal(convert(mod), relax.transform.FoldConstant()(mod))
    assert not caplog.records


def test_extents_that_are_known_in_a_run_only_end_a_region():
    n = tvm.tirx.Var("n", "int64")
    blocks = relax.BlockBuilder()
    x, z = (
        relax.Var("x", relax.TensorType((1, 4, 8, 8))),
        relax.Var("z", relax.TensorType((n, 4, 6, 6))),
    )
    with blocks.function("main", [x, z]):
        with blocks.dataflow():
            y = blocks.emit(op.nn.relu(op.nn.conv2d(x, WEIGHT)))
            y = blocks.emit(op.add(y, z))
            y = blocks.match_cast(y, relax.TensorType((n, 4, 6, 6)))
            y = blocks.emit_output(op.nn.relu(op.nn.conv2d(y, WEIGHT)))
        blocks.emit_func_output(y)
    converted = convert(blocks.finalize())
    assert kernel_layouts(converted) == ["HWIO", "OIHW"]
    relax.analysis.well_formed(converted)


def test_several_outputs_and_tuples_of_them_are_those_of_before():
    def write(net, x):
        y = net.conv2d(x, 6)
        z = net.emit(op.nn.relu(y))
        return [
            relax.Tuple([y, relax.Tuple([x, z])]),
            net.emit(op.split(z, 3, 1)),
            net.conv2d(z, 2),
            y,
        ]

    mod = Network(np.random.default_rng(0), 2, 4, 5, 7).build(write)
    assert kernel_layouts(convert(mod)) == ["HWIO"] * 2
    assert_lowering_keeps_outputs(mod)


def test_fields_of_nested_tuples_stay_in_nchw():
    """TVM cannot compile this as it is."""

    def write(net, x):
        y = net.conv2d(x, 6)
        pair = net.emit(relax.Tuple([y, relax.Tuple([x, net.emit(op.nn.relu(y))])]))
        field = net.emit(relax.TupleGetItem(net.emit(relax.TupleGetItem(pair, 1)), 1))
        return [net.conv2d(field, 2), net.emit(op.concat(net.emit(relax.Tuple([y, field])), 1))]

    converted = convert(Network(np.random.default_rng(0), 2, 4, 5, 7).build(write))
    assert kernel_layouts(converted) == ["HWIO"] * 2
    relax.analysis.well_formed(converted)


def test_operators_that_are_lowered_already_read_what_they_would():
    def write(net, x):
        y = net.conv2d(x, 8)
        z = net._blocks.emit_te(tvm.topi.nn.softmax, y, 1, primfunc_name_hint="own_softmax")
        return [net.conv2d(net.emit(op.add(z, y)), 8)]

    mod = Network(np.random.default_rng(0), 1, 8, 8, 8).build(write)
    assert kernel_layouts(convert(mod)) == ["HWIO"] * 2
    assert_lowering_keeps_outputs(mod)


def test_operators_that_constant_folding_breaks_stay_whole(caplog):
    """TVM's pass legalizes operators to fold them, and leaves parts of this one."""

    def write(net, x):
        limits = [
            relax.const(np.array(values, "int64"), "int64")
            for values in ([0, 2, 1, 0], [1, 8, 8, 6], [1, 1, 2, 3])
        ]
        return [net.emit(op.dynamic_strided_slice(net.conv2d(x, 8), *limits))]

    lowered = assert_lowering_keeps_outputs(
        Network(np.random.default_rng(0), 1, 8, 8, 8).build(write)
    )
    assert count_changes(lowered)["nhwc"] == 1
    assert not caplog.records


def test_each_function_and_each_dataflow_block_is_converted():
    rng = np.random.default_rng(0)
    blocks = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((1, 4, 8, 8)))
    with blocks.function("part", [x], private=True):
        with blocks.dataflow():
            y = blocks.emit_output(
                op.nn.relu(op.nn.conv2d(x, constant(rng, 4, 4, 3, 3), padding=1))
            )
        part = blocks.emit_func_output(y)
    z = relax.Var("z", relax.TensorType((1, 4, 8, 8)))
    with blocks.function("main", [z]):
        with blocks.dataflow():
            y = blocks.emit_output(
                op.nn.relu(op.nn.conv2d(z, constant(rng, 4, 4, 3, 3), padding=1))
            )
        y = blocks.emit(relax.Call(part, [y]))
        with blocks.dataflow():
            y = blocks.emit_output(op.add(op.nn.conv2d(y, constant(rng, 4, 4, 3, 3), padding=1), y))
        blocks.emit_func_output(y)
    mod = blocks.finalize()
    assert count(convert(mod), "permute_dims") == 6
    # one of them is called twice
    assert count_changes(assert_lowering_keeps_outputs(mod))["nhwc"] == 2


def test_other_targets_keep_the_layouts():
    mod, weights = two_convolutions()
    target = tvm.target.Target("nvidia/geforce-rtx-3090")
    lowered = [way(bind_params(mod, weights), target) for way in (lower_as_imported, lower)]
    tvm.ir.assert_structural_equal(*lowered)


def test_a_network_that_cannot_be_converted_is_tuned_as_it_is(monkeypatch, caplog):
    def broken(*_):
        raise tvm.error.InternalError("no layout")

    monkeypatch.setitem(channels_last._RULES, "nn.max_pool2d", broken)
    mod, weights = two_convolutions()
    imported = with_packable_weights(lower_as_imported(bind_params(mod, weights), CPU))
    tvm.ir.assert_structural_equal(lower(bind_params(mod, weights), CPU), imported)
    assert "tuned as TVM lowers it, since it cannot be lowered otherwise: no layout" in caplog.text
