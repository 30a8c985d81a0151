"""Well-known networks as ONNX files with random weights, so that every runtime gets the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

# Exporters fold batch normalization into the convolutions; so do these.
_OPSET, _IR_VERSION = 17, 8


class _Graph:
    """An ONNX graph, built node by node; weights are He-initialized, which preserves the activations' scale."""

    def __init__(self, *shape: int) -> None:
        self._rng = np.random.default_rng(0)
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self._shape = shape

    def constant(self, values: Any) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def weight(self, *shape: int) -> str:
        scale = np.sqrt(2.0 / np.prod(shape[1:])) if len(shape) > 1 else 0.1
        return self.constant((self._rng.standard_normal(shape) * scale).astype("float32"))

    def add(self, kind: str, *inputs: str, **attributes: Any) -> str:
        name = f"y{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def conv(self, x: str, ci: int, co: int, kernel: int, stride: int = 1, padding: int = 0, groups: int = 1) -> str:
        weights = self.weight(co, ci // groups, kernel, kernel), self.weight(co)
        return self.add("Conv", x, *weights, strides=[stride] * 2, pads=[padding] * 4, group=groups)

    def dense(self, x: str, inputs: int, outputs: int) -> str:
        return self.add("Gemm", x, self.weight(outputs, inputs), self.weight(outputs), transB=1)

    def max_pool(self, x: str, kernel: int, stride: int, padding: int = 0, ceil: int = 0) -> str:
        return self.add("MaxPool", x, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[padding] * 4, ceil_mode=ceil)

    def relu(self, x: str) -> str:
        return self.add("Relu", x)

    def save(self, path: Path, output: str) -> None:
        data = helper.make_tensor_value_info("data", TensorProto.FLOAT, self._shape)
        result = helper.make_tensor_value_info(output, TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, path.stem, [data], [result], self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR_VERSION)
        onnx.save(onnx.shape_inference.infer_shapes(model), path)


def _alexnet() -> tuple[_Graph, str]:
    net, x, ci = _Graph(1, 3, 224, 224), "data", 3
    for co, kernel, stride, padding, pooled in [
        (64, 11, 4, 2, True),
        (192, 5, 1, 2, True),
        (384, 3, 1, 1, False),
        (256, 3, 1, 1, False),
        (256, 3, 1, 1, True),
    ]:
        x = net.relu(net.conv(x, ci, co, kernel, stride, padding))
        x, ci = net.max_pool(x, 3, 2) if pooled else x, co
    x = net.add("Flatten", x)
    x = net.relu(net.dense(x, 9216, 4096))
    x = net.relu(net.dense(x, 4096, 4096))
    return net, net.add("Softmax", net.dense(x, 4096, 1000))


def _resnet(blocks: list[int], bottleneck: bool) -> tuple[_Graph, str]:
    net = _Graph(1, 3, 224, 224)
    x = net.max_pool(net.relu(net.conv("data", 3, 64, 7, 2, 3)), 3, 2, 1)
    ci = 64
    for stage, count in enumerate(blocks):
        width = 64 << stage
        co = 4 * width if bottleneck else width
        for block in range(count):
            stride = 2 if stage and not block else 1
            shortcut = net.conv(x, ci, co, 1, stride) if stride > 1 or ci != co else x
            if bottleneck:
                y = net.relu(net.conv(x, ci, width, 1))
                y = net.relu(net.conv(y, width, width, 3, stride, 1))
                y = net.conv(y, width, co, 1)
            else:
                y = net.relu(net.conv(x, ci, width, 3, stride, 1))
                y = net.conv(y, width, co, 3, 1, 1)
            x, ci = net.relu(net.add("Add", y, shortcut)), co
    x = net.add("Flatten", net.add("GlobalAveragePool", x))
    return net, net.add("Softmax", net.dense(x, ci, 1000))


def _mobilenet() -> tuple[_Graph, str]:
    """MobileNet v1 (Howard et al. 2017)."""
    net, ci = _Graph(1, 3, 224, 224), 32
    x = net.relu(net.conv("data", 3, 32, 3, 2, 1))
    strides = {128: 2, 256: 2, 512: 2, 1024: 2}
    for co in (64, 128, 128, 256, 256, 512, 512, 512, 512, 512, 512, 1024, 1024):
        stride = strides.pop(co, 1)
        x = net.relu(net.conv(x, ci, ci, 3, stride, 1, groups=ci))
        x, ci = net.relu(net.conv(x, ci, co, 1)), co
    x = net.add("Flatten", net.add("GlobalAveragePool", x))
    return net, net.add("Softmax", net.dense(x, ci, 1000))


def _squeezenet() -> tuple[_Graph, str]:
    """SqueezeNet 1.1 (Iandola et al. 2016)."""
    net = _Graph(1, 3, 224, 224)
    x, ci = net.max_pool(net.relu(net.conv("data", 3, 64, 3, 2)), 3, 2, ceil=1), 64
    for i, (squeezed, co) in enumerate([(16, 64)] * 2 + [(32, 128)] * 2 + [(48, 192)] * 2 + [(64, 256)] * 2):
        if i in (2, 4):
            x = net.max_pool(x, 3, 2, ceil=1)
        y = net.relu(net.conv(x, ci, squeezed, 1))
        both = net.relu(net.conv(y, squeezed, co, 1)), net.relu(net.conv(y, squeezed, co, 3, 1, 1))
        x, ci = net.add("Concat", *both, axis=1), 2 * co
    x = net.add("GlobalAveragePool", net.relu(net.conv(x, ci, 1000, 1)))
    return net, net.add("Softmax", net.add("Flatten", x))


def _bert_small() -> tuple[_Graph, str]:
    """The encoder of BERT-Small (Turc et al. 2019) for 128 embedded tokens."""
    tokens, hidden, heads = 128, 512, 8
    net, x = _Graph(1, tokens, hidden), "data"
    shapes = [1, tokens, heads, hidden // heads], [1, tokens, hidden]
    split, joined = (net.constant(np.array(shape, "int64")) for shape in shapes)
    scale = net.constant(np.float32((hidden / heads) ** -0.5))
    half, one, root = (net.constant(np.float32(value)) for value in (0.5, 1.0, 2.0**0.5))

    def linear(x: str, inputs: int, outputs: int) -> str:
        return net.add("Add", net.add("MatMul", x, net.constant(_normal(net, inputs, outputs))), net.weight(outputs))

    def norm(x: str) -> str:
        gamma, beta = (net.constant(np.full(hidden, value, "float32")) for value in (1.0, 0.0))
        return net.add("LayerNormalization", x, gamma, beta, axis=-1)

    def by_head(x: str, order: list[int]) -> str:
        return net.add("Transpose", net.add("Reshape", linear(x, hidden, hidden), split), perm=order)

    for _ in range(4):
        q, k, v = by_head(x, [0, 2, 1, 3]), by_head(x, [0, 2, 3, 1]), by_head(x, [0, 2, 1, 3])
        weights = net.add("Softmax", net.add("Mul", net.add("MatMul", q, k), scale), axis=-1)
        mixed = net.add("Transpose", net.add("MatMul", weights, v), perm=[0, 2, 1, 3])
        x = norm(net.add("Add", linear(net.add("Reshape", mixed, joined), hidden, hidden), x))
        y = linear(x, hidden, 4 * hidden)
        gelu = net.add("Mul", net.add("Mul", y, half), net.add("Add", net.add("Erf", net.add("Div", y, root)), one))
        x = norm(net.add("Add", linear(gelu, 4 * hidden, hidden), x))
    return net, x


def _normal(net: _Graph, inputs: int, outputs: int) -> Any:
    return (net._rng.standard_normal((inputs, outputs)) * inputs**-0.5).astype("float32")


NETWORKS: dict[str, Callable[[], tuple[_Graph, str]]] = {
    "alexnet": _alexnet,
    "resnet-18": lambda: _resnet([2, 2, 2, 2], bottleneck=False),
    "resnet-50": lambda: _resnet([3, 4, 6, 3], bottleneck=True),
    "mobilenet": _mobilenet,
    "squeezenet": _squeezenet,
    "bert-small": _bert_small,
}


def save(name: str, path: Path) -> None:
    """Write a network, one of `NETWORKS`, to an ONNX file."""
    net, output = NETWORKS[name]()
    net.save(path, output)
