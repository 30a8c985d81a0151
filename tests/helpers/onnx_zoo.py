"""Networks of the kinds that people bring, as ONNX files of their exporters: true to the structure,
with few channels and pixels.

`NETWORKS` has a function for each, which returns a `Network`: the model, with random weights, and
inputs for it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun
from onnx.reference.ops import op_conv as ops

from benchmarks.onnx_graph import OnnxGraph, onnx_type


@dataclass
class Network:
    """A model, inputs by name, and the largest error of an output that rounding explains, relative
    to the output's largest value.

    `open` has the shapes of the inputs whose batch the model leaves open.
    """

    model: Any
    inputs: dict[str, Any]
    tolerance: float = 1e-4
    open: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def save(self, folder):
        """Write the model to a file, and return its path."""
        path = folder / "model.onnx"
        onnx.save(self.model, path)
        return path

    def expected(self):
        """The outputs, as ONNX specifies them."""
        return ReferenceEvaluator(self.model, new_ops=[Conv, LRN]).run(None, self.inputs)

    def assert_outputs(self, actual, expected):
        """Raise `AssertionError` if rounding does not explain the difference."""
        assert [(x.shape, str(x.dtype)) for x in actual] == [
            (x.shape, str(x.dtype)) for x in expected
        ]
        for x, y in zip(actual, expected):
            np.testing.assert_allclose(
                x.astype("float64"),
                y.astype("float64"),
                rtol=0,
                atol=self.tolerance * np.abs(y).max(initial=0),
            )


class LRN(OpRun):
    """As specified; the reference evaluator's own leaves all channels but the first ones out, as
    many as there are images.
    """

    def _run(self, x, alpha=None, beta=None, bias=None, size=None):
        squares = np.pad(x**2, [(0, 0), ((size - 1) // 2, size // 2), *[(0, 0)] * (x.ndim - 2)])
        sums = sum(squares[:, i : i + x.shape[1]] for i in range(size))
        return ((x / (bias + alpha / size * sums) ** beta).astype(x.dtype),)


class Conv(ops.Conv):
    """As specified; the reference evaluator takes `auto_pad` of the first extents, not of the
    image's.
    """

    def _run(
        self,
        x,
        w,
        b=None,
        auto_pad=None,
        dilations=None,
        group=1,
        kernel_shape=None,
        pads=None,
        strides=None,
    ):
        if auto_pad == "SAME_UPPER":
            totals = [
                max((-(-n // s) - 1) * s + k - n, 0)
                for n, s, k in zip(x.shape[2:], strides, w.shape[2:])
            ]
            pads, auto_pad = (
                [*(total // 2 for total in totals), *((total + 1) // 2 for total in totals)],
                "NOTSET",
            )
        return super()._run(x, w, b, auto_pad, dilations, group, kernel_shape, pads, strides)


class _Graph(OnnxGraph):
    def network(self, **options):
        return Network(self.model(), self.inputs, open=self.open, **options)


def squeezenet():
    """Fire modules, and a Dropout that was exported; named as by Caffe2."""
    g = _Graph(opset=11)
    x = g.relu(g.conv(g.input("gpu_0/data_0", 1, 3, 33, 33), 3, 8, stride=2, pad=0))
    x = g.pool("MaxPool", x, 3, 2, ceil_mode=1)
    for inputs in (8, 16):
        squeezed = g.relu(g.conv(x, inputs, 4, 1))
        x = g.add(
            "Concat", g.relu(g.conv(squeezed, 4, 8, 1)), g.relu(g.conv(squeezed, 4, 8, 3)), axis=1
        )
    x = g.add("Dropout", x, ratio=0.5)
    x = g.add("GlobalAveragePool", g.relu(g.conv(x, 16, 10, 1)))
    g.output(g.add("Softmax", g.reshape(x, 1, 10), axis=1))
    return g.network()


def shufflenet():
    """A unit with stride 2: grouped convolutions, a channel shuffle, and an average pooling beside
    it.
    """
    g = _Graph()
    x = g.input("input.1", 1, 16, 12, 12)
    y = g.relu(g.batch_norm(g.conv(x, 16, 8, 1, group=4, bias=False), 8))
    y = g.reshape(g.transpose(g.reshape(y, 1, 4, 2, 12, 12), 0, 2, 1, 3, 4), 1, -1, 12, 12)
    y = g.batch_norm(g.conv(y, 8, 8, 3, stride=2, group=8, bias=False), 8)
    y = g.batch_norm(g.conv(y, 8, 16, 1, group=4, bias=False), 16)
    g.output(g.relu(g.add("Concat", g.pool("AveragePool", x, 3, 2, 1), y, axis=1)))
    return g.network()


def inception():
    """Local response normalization, and a module of four branches."""
    g = _Graph()
    x = g.add(
        "LRN",
        g.relu(g.conv(g.input("data", 1, 8, 10, 10), 8, 8, 3)),
        size=5,
        alpha=0.5,
        beta=0.75,
        bias=1.0,
    )
    branches = [
        g.relu(g.conv(x, 8, 6, 1)),
        g.relu(g.conv(g.relu(g.conv(x, 8, 4, 1)), 4, 8, 3)),
        g.relu(g.conv(g.relu(g.conv(x, 8, 2, 1)), 2, 4, 5)),
        g.relu(g.conv(g.pool("MaxPool", x, 3, 1, 1), 8, 4, 1)),
    ]
    x = g.add("Concat", *branches, axis=1)
    g.output(g.pool("AveragePool", x, 3, 2, 1))
    return g.network()


def densenet():
    """A block of two layers, which normalize what was concatenated, and a transition."""
    g = _Graph()
    x, channels = g.input("input", 1, 8, 8, 8), 8
    for _ in range(2):
        y = g.conv(g.relu(g.batch_norm(x, channels)), channels, 8, 1, bias=False)
        y = g.conv(g.relu(g.batch_norm(y, 8)), 8, 4, 3, bias=False)
        x, channels = g.add("Concat", x, y, axis=1), channels + 4
    x = g.conv(g.relu(g.batch_norm(x, channels)), channels, 8, 1, bias=False)
    g.output(g.pool("AveragePool", x, 2, 2))
    return g.network()


def resnet():
    """A residual block with its batch normalizations; wide enough for Winograd's algorithm."""
    g = _Graph()
    x = g.relu(
        g.batch_norm(g.conv(g.input("input", 1, 3, 24, 24), 3, 24, 7, stride=2, bias=False), 24)
    )
    y = g.relu(g.batch_norm(g.conv(x, 24, 24, bias=False), 24))
    y = g.batch_norm(g.conv(y, 24, 24, bias=False), 24)
    x = g.relu(g.add("Add", y, x))
    y = g.batch_norm(g.conv(x, 24, 8, stride=2, bias=False), 8)
    x = g.relu(g.add("Add", y, g.batch_norm(g.conv(x, 24, 8, 1, stride=2, bias=False), 8)))
    g.output(g.classifier(x, 8, 10))
    return g.network()


def mobilenet_v2():
    """An inverted residual block."""
    g = _Graph()
    x = g.input("input", 1, 8, 10, 10)
    bounds = g.constant(0.0), g.constant(6.0)
    y = g.add("Clip", g.conv(x, 8, 24, 1), *bounds)
    y = g.add("Clip", g.conv(y, 24, 24, 3, group=24), *bounds)
    x = g.add("Add", x, g.conv(y, 24, 8, 1))
    y = g.add("Clip", g.conv(x, 8, 24, 1), *bounds)
    y = g.add("Clip", g.conv(y, 24, 24, 3, stride=2, group=24), *bounds)
    g.output(g.classifier(g.conv(y, 24, 12, 1), 12, 10))
    return g.network()


def mobilenet_v3():
    """A block with squeeze-and-excite."""
    g = _Graph()
    x = g.input("input", 1, 8, 10, 10)
    y = g.add("HardSwish", g.conv(x, 8, 24, 1))
    y = g.add("HardSwish", g.conv(y, 24, 24, 5, group=24))
    squeezed = g.relu(g.conv(g.add("GlobalAveragePool", y), 24, 8, 1))
    scale = g.add("HardSigmoid", g.conv(squeezed, 8, 24, 1), alpha=1 / 6)
    g.output(g.add("Add", x, g.conv(g.add("Mul", scale, y), 24, 8, 1)))
    return g.network()


def efficientnet():
    """As TensorFlow's exporter writes it: images in NHWC, and as much padding as keeps the
    extents.
    """
    g = _Graph(opset=13)
    x = g.transpose(g.input("input_1:0", 1, 14, 14, 3), 0, 3, 1, 2)
    x = g.silu(g.conv(x, 3, 8, stride=2, pad="SAME_UPPER"))
    x = g.silu(g.conv(x, 8, 8, stride=2, pad="SAME_UPPER", group=8))
    squeezed = g.silu(g.conv(g.add("GlobalAveragePool", x), 8, 4, 1))
    x = g.conv(g.add("Mul", x, g.add("Sigmoid", g.conv(squeezed, 4, 8, 1))), 8, 12, 1)
    x = g.add("Squeeze", g.add("GlobalAveragePool", x), g.ints(2, 3))
    g.output(g.linear(x, 12, 10))
    return g.network()


def unet():
    """One level: down, up by a transposed convolution, and beside it a shortcut."""
    g = _Graph()
    x = g.relu(g.conv(g.input("input", 1, 3, 16, 16), 3, 8))
    y = g.relu(g.conv(g.pool("MaxPool", x, 2, 2), 8, 16))
    y = g.conv_transpose(y, 16, 8, 2, 2)
    y = g.relu(g.conv(g.add("Concat", x, y, axis=1), 16, 4))
    g.output(g.add("Sigmoid", g.conv(y, 4, 1, 1)))
    return g.network()


def dcgan():
    """The generator: transposed convolutions that overlap."""
    g = _Graph()
    x = g.input("z", 1, 16, 1, 1)
    x = g.relu(g.batch_norm(g.conv_transpose(x, 16, 16, 4, 1), 16))
    x = g.relu(g.batch_norm(g.conv_transpose(x, 16, 8, 4, 2, 1), 8))
    g.output(g.add("Tanh", g.conv_transpose(x, 8, 3, 3, 2, 1, output_padding=[1, 1])))
    return g.network()


def espcn():
    """Super-resolution by DepthToSpace."""
    g = _Graph()
    x = g.add("Tanh", g.conv(g.input("input", 1, 1, 12, 12), 1, 16, 5))
    x = g.add("Tanh", g.conv(x, 16, 8, 3))
    g.output(g.add("DepthToSpace", g.conv(x, 8, 4, 3), blocksize=2, mode="CRD"))
    return g.network()


def segmentation():
    """DeepLab's head: dilated convolutions, a resized image, and the classes of its pixels."""
    g = _Graph()
    x = g.relu(g.conv(g.input("pixel_values", 1, 3, 8, 8), 3, 8, stride=2))
    pooled = g.relu(g.conv(g.add("GlobalAveragePool", x), 8, 4, 1))
    linear = {"mode": "linear", "coordinate_transformation_mode": "half_pixel"}
    pooled = g.add("Resize", pooled, "", "", g.ints(1, 4, 4, 4), **linear)
    branches = [g.relu(g.conv(x, 8, 4, 1)), g.relu(g.conv(x, 8, 4, 3, dilation=2)), pooled]
    x = g.conv(g.add("Concat", *branches, axis=1), 12, 4, 1)
    x = g.add("Resize", x, "", g.constant([1, 1, 2, 2]), **linear)
    g.output(g.add("Softmax", x, axis=1))
    g.output(g.add("ArgMax", x, axis=1, keepdims=0), "int64")
    return g.network()


def style_transfer():
    """Reflecting pads, instance normalization, and upsampling."""
    g = _Graph()

    def conv(x, inputs, outputs, kernel, stride=1):
        pad = kernel // 2
        x = g.add("Pad", x, g.ints(0, 0, pad, pad, 0, 0, pad, pad), mode="reflect")
        return g.conv(x, inputs, outputs, kernel, stride, pad=0)

    def norm(x, channels):
        return g.add(
            "InstanceNormalization", x, g.weight(channels, mean=1), g.weight(channels), epsilon=1e-5
        )

    x = g.relu(norm(conv(g.input("input1", 1, 3, 10, 10), 3, 8, 5), 8))
    x = g.relu(norm(conv(x, 8, 4, 3, stride=2), 4))
    x = g.add("Add", x, norm(conv(g.relu(norm(conv(x, 4, 4, 3), 4)), 4, 4, 3), 4))
    nearest = {
        "mode": "nearest",
        "coordinate_transformation_mode": "asymmetric",
        "nearest_mode": "floor",
    }
    x = g.add("Resize", x, "", g.constant([1, 1, 2, 2]), **nearest)
    g.output(conv(g.relu(norm(conv(x, 4, 4, 3), 4)), 4, 3, 5))
    return g.network()


def yolo():
    """A detector of two levels, without what selects its boxes."""
    g = _Graph()
    boxes, scores = _boxes(g)
    g.output(boxes)
    g.output(scores)
    return g.network()


def yolo_nms():
    """The same, with it: how many boxes there are is known in a run only."""
    g = _Graph()
    boxes, scores = _boxes(g)
    selected = g.add(
        "NonMaxSuppression", boxes, scores, g.ints(8), g.constant([0.5]), g.constant([0.3])
    )
    g.output(selected, "int64")
    g.output(
        g.add(
            "Gather",
            g.reshape(boxes, -1, 4),
            g.add("Gather", selected, g.constant(2, "int64"), axis=1),
            axis=0,
        )
    )
    return g.network()


def _boxes(g):
    """The corners of 80 boxes, shape (1, 80, 4), and scores of 3 classes, shape (1, 3, 80)."""
    near = g.silu(g.conv(g.input("images", 1, 3, 16, 16), 3, 8, stride=2))
    far = g.silu(g.conv(near, 8, 8, stride=2))
    pooled = g.pool("MaxPool", far, 5, 1, 2)
    far = g.silu(
        g.conv(g.add("Concat", far, pooled, g.pool("MaxPool", pooled, 5, 1, 2), axis=1), 24, 8, 1)
    )
    nearest = {
        "mode": "nearest",
        "coordinate_transformation_mode": "asymmetric",
        "nearest_mode": "floor",
    }
    enlarged = g.add("Resize", far, "", g.constant([1, 1, 2, 2]), **nearest)
    left, right = g.add(
        "Split", g.add("Concat", enlarged, near, axis=1), g.ints(8, 8), outputs=2, axis=1
    )
    near = g.silu(g.conv(g.add("Add", left, right), 8, 8))
    levels = [g.reshape(g.conv(x, 8, 7, 1), 1, 7, -1) for x in (near, far)]
    x = g.transpose(g.add("Concat", *levels, axis=2), 0, 2, 1)
    axis = g.ints(2)
    centre, size, scores = (
        g.add("Slice", x, g.ints(begin), g.ints(end), axis, g.ints(1))
        for begin, end in ((0, 2), (2, 4), (4, 7))
    )
    centre = g.add("Add", centre, g.constant(g.rng.uniform(0, 16, (1, 80, 2))))
    half = g.add("Div", g.add("Mul", g.add("Exp", size), g.constant(2.0)), g.constant(2.0))
    corners = g.add("Concat", g.add("Sub", centre, half), g.add("Add", centre, half), axis=2)
    return corners, g.transpose(g.add("Sigmoid", scores), 0, 2, 1)


def keypoints():
    """Where a heatmap is high: how many places there are is known in a run only."""
    g = _Graph()
    x = g.relu(g.conv(g.input("image", 1, 3, 12, 12), 3, 8))
    heatmap = g.add("Sigmoid", g.conv(x, 8, 2, 1))
    g.output(heatmap)
    g.output(
        g.transpose(g.add("NonZero", g.add("Greater", heatmap, g.constant(0.7))), 1, 0), "int64"
    )
    return g.network()


def bert():
    """A layer of an encoder, as PyTorch exported it before ONNX had LayerNormalization and Gelu."""
    g = _Graph(opset=13)
    tokens, hidden, heads = 12, 32, 4
    ids, mask, kinds = (
        g.input(name, 1, tokens, below=below)
        for name, below in [("input_ids", 40), ("attention_mask", 2), ("token_type_ids", 2)]
    )
    x = g.add(
        "Add",
        g.add("Gather", g.weight(40, hidden), ids),
        g.add("Gather", g.weight(2, hidden), kinds),
    )
    positions = g.add("Gather", g.weight(16, hidden), g.constant([range(tokens)], "int64"))
    x = g.layer_norm(g.add("Add", x, positions), hidden)
    mask = g.add(
        "Cast",
        g.add("Unsqueeze", g.add("Unsqueeze", mask, g.ints(1)), g.ints(2)),
        to=onnx_type("float32"),
    )
    mask = g.add("Mul", g.add("Sub", g.constant(1.0), mask), g.constant(np.finfo("float32").min))

    split = 1, tokens, heads, hidden // heads
    query, key, value = (g.reshape(g.linear(x, hidden, hidden), *split) for _ in range(3))
    scores = g.add("MatMul", g.transpose(query, 0, 2, 1, 3), g.transpose(key, 0, 2, 3, 1))
    scores = g.add("Add", g.add("Div", scores, g.constant((hidden / heads) ** 0.5)), mask)
    mixed = g.add("MatMul", g.add("Softmax", scores, axis=-1), g.transpose(value, 0, 2, 1, 3))
    mixed = g.reshape(g.transpose(mixed, 0, 2, 1, 3), 0, 0, hidden)
    x = g.layer_norm(g.add("Add", g.linear(mixed, hidden, hidden), x), hidden)
    y = g.linear(g.gelu(g.linear(x, hidden, 2 * hidden)), 2 * hidden, hidden)
    x = g.layer_norm(g.add("Add", y, x), hidden)
    g.output(x)
    first = g.add("Gather", x, g.constant(0, "int64"), axis=1)
    g.output(g.add("Tanh", g.gemm(first, hidden, hidden)))
    return g.network()


def gpt2():
    """A layer of a decoder with the keys and values of earlier tokens, which it returns with those
    of the new ones.
    """
    g = _Graph(opset=13)
    past, tokens, hidden, heads = 6, 2, 32, 4
    head = hidden // heads
    ids = g.input("input_ids", 1, tokens, below=40)
    past_key, past_value = (
        g.input(f"past_key_values.0.{name}", 1, heads, past, head) for name in ("key", "value")
    )
    embedding = g.weight(40, hidden)
    positions = g.constant([range(past, past + tokens)], "int64")
    x = g.add(
        "Add", g.add("Gather", embedding, ids), g.add("Gather", g.weight(16, hidden), positions)
    )

    def conv1d(x, inputs, outputs):
        """GPT-2's dense layer, of rows."""
        y = g.add(
            "Gemm",
            g.reshape(x, -1, inputs),
            g.weight(inputs, outputs, scale=inputs**-0.5),
            g.weight(outputs),
        )
        return g.reshape(y, 1, tokens, outputs)

    parts = g.add(
        "Split",
        conv1d(g.layer_norm(x, hidden), hidden, 3 * hidden),
        g.ints(*[hidden] * 3),
        outputs=3,
        axis=2,
    )
    query, key, value = (
        g.transpose(g.reshape(one, 1, tokens, heads, head), 0, 2, 1, 3) for one in parts
    )
    key, value = (
        g.add("Concat", past_key, key, axis=-2),
        g.add("Concat", past_value, value, axis=-2),
    )
    scores = g.add(
        "Div", g.add("MatMul", query, g.transpose(key, 0, 1, 3, 2)), g.constant(head**0.5)
    )
    causal = g.constant(np.tril(np.ones((1, 1, 16, 16))), "bool")
    causal = g.add("Slice", causal, g.ints(past), g.ints(past + tokens), g.ints(2), g.ints(1))
    causal = g.add("Slice", causal, g.ints(0), g.ints(past + tokens), g.ints(3), g.ints(1))
    scores = g.add("Where", causal, scores, g.constant(np.finfo("float32").min))
    mixed = g.transpose(g.add("MatMul", g.add("Softmax", scores, axis=-1), value), 0, 2, 1, 3)
    x = g.add("Add", conv1d(g.reshape(mixed, 1, tokens, hidden), hidden, hidden), x)
    y = conv1d(g.layer_norm(x, hidden), hidden, 2 * hidden)
    cubic = g.add("Mul", g.add("Pow", y, g.constant(3.0)), g.constant(0.044715))
    tanh = g.add("Tanh", g.add("Mul", g.add("Add", y, cubic), g.constant((2 / np.pi) ** 0.5)))
    y = g.add("Mul", g.add("Mul", y, g.constant(0.5)), g.add("Add", tanh, g.constant(1.0)))
    x = g.layer_norm(g.add("Add", x, conv1d(y, 2 * hidden, hidden)), hidden)
    g.output(g.add("MatMul", x, g.transpose(embedding, 1, 0)))
    g.output(key)
    g.output(value)
    return g.network()


def vision_transformer():
    """Patches of an image, a class token, and a layer of an encoder."""
    g = _Graph()
    tokens, hidden, heads = 17, 32, 4

    def norm(x):
        return g.add(
            "LayerNormalization",
            x,
            g.weight(hidden, mean=1),
            g.weight(hidden),
            axis=-1,
            epsilon=1e-6,
        )

    x = g.conv(g.input("pixel_values", 1, 3, 16, 16), 3, hidden, 4, stride=4, pad=0)
    x = g.transpose(g.reshape(x, 1, hidden, -1), 0, 2, 1)
    token = g.add("Expand", g.weight(1, 1, hidden), g.ints(1, 1, 1))
    x = g.add("Add", g.add("Concat", token, x, axis=1), g.weight(1, tokens, hidden))
    qkv = g.transpose(
        g.reshape(g.linear(norm(x), hidden, 3 * hidden), 1, tokens, 3, heads, hidden // heads),
        2,
        0,
        3,
        1,
        4,
    )
    query, key, value = (g.add("Gather", qkv, g.constant(i, "int64"), axis=0) for i in range(3))
    scores = g.add(
        "Mul",
        g.add("MatMul", query, g.transpose(key, 0, 1, 3, 2)),
        g.constant((hidden / heads) ** -0.5),
    )
    mixed = g.transpose(g.add("MatMul", g.add("Softmax", scores, axis=-1), value), 0, 2, 1, 3)
    x = g.add("Add", x, g.linear(g.reshape(mixed, 1, tokens, hidden), hidden, hidden))
    x = g.add("Add", x, g.linear(g.gelu(g.linear(norm(x), hidden, 2 * hidden)), 2 * hidden, hidden))
    g.output(g.gemm(g.add("Gather", norm(x), g.constant(0, "int64"), axis=1), hidden, 10))
    return g.network()


def convnext():
    """A block whose dense layers are of channels, which it moves to the end and back."""
    g = _Graph()
    x = g.input("input", 1, 12, 8, 8)
    y = g.transpose(g.conv(x, 12, 12, 7, group=12), 0, 2, 3, 1)
    y = g.add("LayerNormalization", y, g.weight(12, mean=1), g.weight(12), axis=-1, epsilon=1e-6)
    y = g.add("Mul", g.linear(g.gelu(g.linear(y, 12, 24)), 24, 12), g.weight(12))
    x = g.add("Add", g.transpose(y, 0, 3, 1, 2), x)
    g.output(g.conv(x, 12, 16, 2, stride=2, pad=0))
    return g.network()


def face_recognition():
    """A slope for each channel, and a feature vector of length 1, with batch normalization of
    features.
    """
    g = _Graph()
    x = g.add(
        "PRelu",
        g.batch_norm(g.conv(g.input("data", 1, 3, 14, 14), 3, 8, stride=2, bias=False), 8),
        g.weight(8, 1, 1),
    )
    x = g.add("PRelu", g.conv(x, 8, 8, 3, group=8), g.weight(8, 1, 1))
    x = g.conv(x, 8, 16, 7, pad=0)
    x = g.batch_norm(g.gemm(g.add("Flatten", x), 16, 12), 12)
    length = g.add("Clip", g.add("ReduceL2", x, axes=[1], keepdims=1), g.constant(1e-12), "")
    g.output(g.add("Div", x, g.add("Expand", length, g.add("Shape", x))))
    return g.network()


def text_recognition():
    """An image of text becomes a sequence, of which a class is told at each step."""
    g = _Graph()
    x = g.pool("MaxPool", g.relu(g.conv(g.input("x", 1, 1, 8, 32), 1, 8)), 2, 2)
    x = g.relu(g.conv(x, 8, 16))
    x = g.add("MaxPool", x, kernel_shape=[2, 1], strides=[2, 1], pads=[0, 0, 0, 0])
    x = g.relu(g.batch_norm(g.conv(x, 16, 16, 2, pad=0), 16))
    x = g.transpose(g.add("Squeeze", x, g.ints(2)), 2, 0, 1)
    g.output(g.add("LogSoftmax", g.linear(x, 16, 11), axis=2))
    return g.network()


def audio():
    """One-dimensional convolutions: with stride, and dilated with gates, as in WaveNet."""
    g = _Graph()
    x = g.input("waveform", 1, 1, 256)
    x = g.relu(g.batch_norm(g.conv(x, 1, 8, 9, stride=4, rank=1, bias=False), 8))
    x = g.pool("MaxPool", x, 2, 2, rank=1)
    tanh, gate = (g.conv(x, 8, 8, 3, dilation=2, rank=1) for _ in range(2))
    x = g.add(
        "Add", x, g.conv(g.add("Mul", g.add("Tanh", tanh), g.add("Sigmoid", gate)), 8, 8, 1, rank=1)
    )
    g.output(g.classifier(x, 8, 10))
    return g.network()


def video():
    """Three-dimensional convolutions."""
    g = _Graph()
    x = g.relu(g.batch_norm(g.conv(g.input("video", 1, 3, 4, 8, 8), 3, 8, rank=3, bias=False), 8))
    x = g.add("MaxPool", x, kernel_shape=[1, 2, 2], strides=[1, 2, 2], pads=[0] * 6)
    g.output(g.classifier(g.relu(g.conv(x, 8, 8, rank=3)), 8, 10))
    return g.network()


def perceptron():
    """Dense layers, with a Dropout that was exported as newer exporters write it."""
    g = _Graph()
    x = g.relu(g.gemm(g.input("x", 2, 24), 24, 32))
    x = g.add("Dropout", x, g.constant(0.5), outputs=2)[0]
    g.output(g.add("Softmax", g.gemm(x, 32, 10), axis=1))
    return g.network()


def lstm():
    """A recurrent layer, and a dense one for each step."""
    g = _Graph()
    features, hidden = 8, 16
    x = g.input("input", 6, 1, features)
    weights = [g.weight(1, 4 * hidden, inputs, scale=inputs**-0.5) for inputs in (features, hidden)]
    state = [g.constant(np.zeros((1, 1, hidden))) for _ in range(2)]
    y, *_ = g.add(
        "LSTM", x, *weights, g.weight(1, 8 * hidden), "", *state, outputs=3, hidden_size=hidden
    )
    g.output(g.linear(g.add("Squeeze", y, g.ints(1)), hidden, 10))
    return g.network()


def gru():
    """The same with gates as PyTorch has them."""
    g = _Graph()
    features, hidden = 8, 16
    x = g.input("input", 6, 1, features)
    weights = [g.weight(1, 3 * hidden, inputs, scale=inputs**-0.5) for inputs in (features, hidden)]
    state = g.constant(np.zeros((1, 1, hidden)))
    options = {"hidden_size": hidden, "linear_before_reset": 1}
    y, _ = g.add("GRU", x, *weights, g.weight(1, 6 * hidden), "", state, outputs=2, **options)
    g.output(g.linear(g.add("Squeeze", y, g.ints(1)), hidden, 10))
    return g.network()


def quantized():
    """Convolutions and a dense layer in int8, with the nodes that ONNX Runtime's quantization
    writes (QDQ).
    """
    g = _Graph(opset=19)

    def quantize(x, scale):
        parameters = g.constant(scale), g.constant(0, "int8")
        return g.add("DequantizeLinear", g.add("QuantizeLinear", x, *parameters), *parameters)

    def dequantized(values, scale, dtype):
        """A constant, with a scale for each of its first extent."""
        quantized = g.constant(np.rint(values / scale.reshape(-1, *[1] * (values.ndim - 1))), dtype)
        return g.add(
            "DequantizeLinear",
            quantized,
            g.constant(scale),
            g.constant(np.zeros(len(scale)), dtype),
            axis=0,
        )

    def layer(operator, x, scale, *shape, **options):
        weight = g.rng.standard_normal(shape) * (2 / prod(shape[1:])) ** 0.5
        scales = np.abs(weight).reshape(shape[0], -1).max(axis=1) / 127
        bias = dequantized(0.1 * g.rng.standard_normal(shape[0]), scales * scale, "int32")
        return g.add(operator, x, dequantized(weight, scales, "int8"), bias, **options)

    step = 4 / 127
    same = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    x = quantize(g.input("input", 1, 3, 12, 12), step)
    x = quantize(g.relu(layer("Conv", x, step, 8, 3, 3, 3, **same, strides=[2, 2])), step)
    y = quantize(g.relu(layer("Conv", x, step, 8, 8, 3, 3, **same)), step)
    x = quantize(g.add("Add", x, y), step)
    x = quantize(g.add("Flatten", quantize(g.add("GlobalAveragePool", x), step)), step)
    g.output(quantize(layer("Gemm", x, step, 10, 8, transB=1), step))
    return g.network(tolerance=0.03)


def half_precision():
    """A residual block in float16."""
    g = _Graph(dtype="float16")
    _half_block(g, g.input("input", 1, 3, 12, 12))
    return g.network(tolerance=0.02)


def half_precision_inside():
    """The same, with inputs and outputs in float32."""
    g = _Graph(dtype="float16")
    x = g.add("Cast", g.input("input", 1, 3, 12, 12, dtype="float32"), to=onnx_type("float16"))
    _half_block(g, x, lambda y: g.add("Cast", y, to=onnx_type("float32")), "float32")
    return g.network(tolerance=0.02)


def _half_block(g, x, convert=lambda y: y, dtype="float16"):
    x = g.relu(g.batch_norm(g.conv(x, 3, 8, stride=2, bias=False), 8))
    x = g.relu(g.add("Add", x, g.conv(g.relu(g.conv(x, 8, 8)), 8, 8)))
    g.output(convert(g.add("Softmax", g.classifier(x, 8, 10), axis=-1)), dtype)


def open_batch():
    """A batch of any size, which the network asks for its shape to flatten the images."""
    g = _Graph()
    x = g.pool(
        "MaxPool",
        g.relu(g.conv(g.input("input", 2, 1, 12, 12, open_batch="batch_size"), 1, 8)),
        2,
        2,
    )
    x = g.pool("MaxPool", g.relu(g.conv(x, 8, 8)), 2, 2)
    batch = g.add(
        "Unsqueeze", g.add("Gather", g.add("Shape", x), g.constant(0, "int64"), axis=0), g.ints(0)
    )
    x = g.add("Reshape", x, g.add("Concat", batch, g.ints(-1), axis=0))
    g.output(g.gemm(g.relu(g.gemm(x, 72, 16)), 16, 10))
    return g.network()


def recommender():
    """Several inputs, of which some are indices, and several outputs."""
    g = _Graph()
    user = g.add("Gather", g.weight(20, 16), g.input("user_id", 4, below=20))
    item = g.add("Gather", g.weight(30, 16), g.input("item_id", 4, below=30))
    x = g.relu(g.gemm(g.add("Concat", user, item, g.input("features", 4, 8), axis=1), 40, 24))
    deep = g.gemm(x, 24, 16)
    cross = g.add("ReduceSum", g.add("Mul", user, item), g.ints(1), keepdims=1)
    g.output(g.add("Sigmoid", g.add("Add", g.gemm(deep, 16, 1), cross)))
    g.output(deep)
    return g.network()


NETWORKS: dict[str, Callable[[], Network]] = {
    build.__name__: build
    for build in (
        *(
            squeezenet,
            shufflenet,
            inception,
            densenet,
            resnet,
            mobilenet_v2,
            mobilenet_v3,
            efficientnet,
            convnext,
            face_recognition,
        ),
        *(unet, dcgan, espcn, segmentation, style_transfer, yolo, yolo_nms, keypoints),
        *(
            bert,
            gpt2,
            vision_transformer,
            text_recognition,
            audio,
            video,
            perceptron,
            lstm,
            gru,
            recommender,
        ),
        *(quantized, half_precision, half_precision_inside, open_batch),
    )
}


def networks(quick=NETWORKS, faults=()):
    """Names for `parametrize`, with what TVM is expected to fail at, for a reason, and what is not
    quick, but for `make soak`.
    """
    for name in NETWORKS:
        marks = [pytest.mark.xfail(reason=faults[name], strict=True)] if name in faults else []
        yield pytest.param(name, marks=marks if name in quick else [*marks, pytest.mark.soak])
