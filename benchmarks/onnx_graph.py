"""ONNX models that are built node by node, as exporters write them, with random weights."""

from math import prod

import numpy as np
import onnx
from onnx import helper, numpy_helper


def onnx_type(dtype):
    """The code of a dtype."""
    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


class OnnxGraph:
    """A model that is built node by node, with names as PyTorch gives them."""

    def __init__(self, opset=17, dtype="float32"):
        self.rng = np.random.default_rng(0)
        self.opset, self.dtype = opset, dtype
        self.nodes = []
        self.weights = []
        self.declared = []
        self.outputs = []
        self.inputs = {}
        self.open = {}

    def input(self, name, *shape, dtype=None, below=None, open_batch=""):
        """Normally distributed numbers, or indices below a number; the model may have a name for
        the size of the batch.
        """
        dtype = "int64" if below else dtype or self.dtype
        self.inputs[name] = (
            self.rng.integers(0, below, shape) if below else self.rng.standard_normal(shape)
        ).astype(dtype)
        if open_batch:
            self.open[name] = shape
        declared = (open_batch, *shape[1:]) if open_batch else shape
        self.declared.append(helper.make_tensor_value_info(name, onnx_type(dtype), declared))
        return name

    def constant(self, values, dtype="float32"):
        name = f"onnx::Constant_{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(values, dtype), name))
        return name

    def ints(self, *values):
        return self.constant(values, "int64")

    def weight(self, *shape, mean=0.0, scale=None):
        """He-initialized, which preserves the scale of the activations; vectors are small."""
        scale = scale or ((2 / prod(shape[1:])) ** 0.5 if len(shape) > 1 else 0.1)
        return self.constant(mean + scale * self.rng.standard_normal(shape), self.dtype)

    def add(self, operator, *inputs, outputs=1, **attributes):
        """Add a node; returns the name of its output, or a list of several."""
        name = f"/{operator}_{len(self.nodes)}"
        names = [f"{name}_output_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(operator, list(inputs), names, name=name, **attributes))
        return names[0] if outputs == 1 else names

    def output(self, name, dtype=None):
        self.outputs.append(
            helper.make_tensor_value_info(name, onnx_type(dtype or self.dtype), None)
        )

    def model(self):
        graph = helper.make_graph(
            self.nodes, "main_graph", self.declared, self.outputs, self.weights
        )
        opset = helper.make_opsetid("", self.opset)
        model = helper.make_model(
            graph, opset_imports=[opset], ir_version=8, producer_name="pytorch"
        )
        model = onnx.shape_inference.infer_shapes(model, strict_mode=True)
        onnx.checker.check_model(model)
        return model

    # Layers.

    def conv(
        self,
        x,
        inputs,
        outputs,
        kernel=3,
        stride=1,
        pad=None,
        group=1,
        dilation=1,
        rank=2,
        bias=True,
    ):
        """A convolution that keeps the extents, but for its stride, unless the padding is given."""
        pad = dilation * (kernel - 1) // 2 if pad is None else pad
        padding = {"auto_pad": pad} if isinstance(pad, str) else {"pads": [pad] * 2 * rank}
        weights = [
            self.weight(outputs, inputs // group, *[kernel] * rank),
            *([self.weight(outputs)] if bias else []),
        ]
        options = {"kernel_shape": [kernel] * rank, "strides": [stride] * rank, **padding}
        return self.add("Conv", x, *weights, **options, dilations=[dilation] * rank, group=group)

    def conv_transpose(self, x, inputs, outputs, kernel, stride, pad=0, **options):
        weights = (
            self.weight(inputs, outputs, kernel, kernel, scale=(2 / inputs) ** 0.5 / kernel),
            self.weight(outputs),
        )
        extents = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [pad] * 4}
        return self.add("ConvTranspose", x, *weights, **extents, **options)

    def batch_norm(self, x, channels):
        parameters = self.weight(channels, mean=1), self.weight(channels), self.weight(channels)
        variance = self.constant(self.rng.uniform(0.5, 1.5, channels), self.dtype)
        return self.add("BatchNormalization", x, *parameters, variance, epsilon=1e-5, momentum=0.9)

    def relu(self, x):
        return self.add("Relu", x)

    def silu(self, x):
        return self.add("Mul", x, self.add("Sigmoid", x))

    def pool(self, kind, x, kernel, stride, pad=0, rank=2, **options):
        extents = {
            "kernel_shape": [kernel] * rank,
            "strides": [stride] * rank,
            "pads": [pad] * 2 * rank,
        }
        return self.add(kind, x, **extents, **options)

    def classifier(self, x, channels, classes):
        """Pooling, and a dense layer."""
        x = self.add("Flatten", self.add("GlobalAveragePool", x), axis=1)
        return self.gemm(x, channels, classes)

    def gemm(self, x, inputs, outputs):
        weights = self.weight(outputs, inputs), self.weight(outputs)
        return self.add("Gemm", x, *weights, alpha=1.0, beta=1.0, transB=1)

    def linear(self, x, inputs, outputs):
        """A dense layer of more than two dimensions."""
        weight = self.weight(inputs, outputs, scale=(1 / inputs) ** 0.5)
        return self.add("Add", self.weight(outputs), self.add("MatMul", x, weight))

    def layer_norm(self, x, features):
        """As it was exported before ONNX had an operator for it."""
        centred = self.add("Sub", x, self.add("ReduceMean", x, axes=[-1]))
        variance = self.add("ReduceMean", self.add("Pow", centred, self.constant(2.0)), axes=[-1])
        deviation = self.add("Sqrt", self.add("Add", variance, self.constant(1e-5)))
        scaled = self.add("Mul", self.add("Div", centred, deviation), self.weight(features, mean=1))
        return self.add("Add", scaled, self.weight(features))

    def gelu(self, x):
        erf = self.add("Erf", self.add("Div", x, self.constant(2**0.5)))
        return self.add(
            "Mul", self.add("Mul", x, self.add("Add", erf, self.constant(1.0))), self.constant(0.5)
        )

    def reshape(self, x, *shape):
        return self.add("Reshape", x, self.ints(*shape))

    def transpose(self, x, *axes):
        return self.add("Transpose", x, perm=axes)
