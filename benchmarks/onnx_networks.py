"""Well-known networks as ONNX files with random weights, so that every runtime gets the same.

Exporters fold batch normalization into the convolutions; so do these.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx

from autotvm_opevo.networks.alexnet import CONVOLUTIONS
from benchmarks.onnx_graph import OnnxGraph

_IMAGE = "data", 1, 3, 224, 224


def _alexnet() -> OnnxGraph:
    g, inputs = OnnxGraph(), 3
    x = g.input(*_IMAGE)
    for outputs, kernel, stride, pad, pooled in CONVOLUTIONS:
        x = g.relu(g.conv(x, inputs, outputs, kernel, stride, pad))
        x, inputs = g.pool("MaxPool", x, 3, 2) if pooled else x, outputs
    x = g.add("Flatten", x)
    x = g.relu(g.gemm(x, 9216, 4096))
    x = g.relu(g.gemm(x, 4096, 4096))
    g.output(g.add("Softmax", g.gemm(x, 4096, 1000)))
    return g


def _resnet(blocks: list[int], bottleneck: bool) -> OnnxGraph:
    g, inputs = OnnxGraph(), 64
    x = g.pool("MaxPool", g.relu(g.conv(g.input(*_IMAGE), 3, 64, 7, 2)), 3, 2, 1)
    for stage, count in enumerate(blocks):
        width = 64 << stage
        outputs = 4 * width if bottleneck else width
        for block in range(count):
            stride = 2 if stage and not block else 1
            shortcut = (
                g.conv(x, inputs, outputs, 1, stride) if stride > 1 or inputs != outputs else x
            )
            if bottleneck:
                y = g.relu(g.conv(x, inputs, width, 1))
                y = g.relu(g.conv(y, width, width, 3, stride))
                y = g.conv(y, width, outputs, 1)
            else:
                y = g.relu(g.conv(x, inputs, width, 3, stride))
                y = g.conv(y, width, outputs)
            x, inputs = g.relu(g.add("Add", y, shortcut)), outputs
    g.output(g.add("Softmax", g.classifier(x, inputs, 1000)))
    return g


def _mobilenet() -> OnnxGraph:
    """MobileNet v1 (Howard et al. 2017)."""
    g, inputs = OnnxGraph(), 32
    x = g.relu(g.conv(g.input(*_IMAGE), 3, 32, 3, 2))
    strides = {128: 2, 256: 2, 512: 2, 1024: 2}
    for outputs in (64, 128, 128, 256, 256, 512, 512, 512, 512, 512, 512, 1024, 1024):
        x = g.relu(g.conv(x, inputs, inputs, 3, strides.pop(outputs, 1), group=inputs))
        x, inputs = g.relu(g.conv(x, inputs, outputs, 1)), outputs
    g.output(g.add("Softmax", g.classifier(x, inputs, 1000)))
    return g


def _squeezenet() -> OnnxGraph:
    """SqueezeNet 1.1 (Iandola et al. 2016)."""
    g, inputs = OnnxGraph(), 64
    x = g.pool("MaxPool", g.relu(g.conv(g.input(*_IMAGE), 3, 64, 3, 2, pad=0)), 3, 2, ceil_mode=1)
    for i, (squeezed, outputs) in enumerate(
        [(16, 64)] * 2 + [(32, 128)] * 2 + [(48, 192)] * 2 + [(64, 256)] * 2
    ):
        if i in (2, 4):
            x = g.pool("MaxPool", x, 3, 2, ceil_mode=1)
        y = g.relu(g.conv(x, inputs, squeezed, 1))
        both = g.relu(g.conv(y, squeezed, outputs, 1)), g.relu(g.conv(y, squeezed, outputs, 3))
        x, inputs = g.add("Concat", *both, axis=1), 2 * outputs
    x = g.add("GlobalAveragePool", g.relu(g.conv(x, inputs, 1000, 1)))
    g.output(g.add("Softmax", g.add("Flatten", x)))
    return g


def _bert_small() -> OnnxGraph:
    """The encoder of BERT-Small (Turc et al. 2019) for 128 embedded tokens."""
    tokens, hidden, heads = 128, 512, 8
    g = OnnxGraph()
    x, scale = g.input("data", 1, tokens, hidden), g.constant((hidden / heads) ** -0.5)

    def norm(x: str) -> str:
        gamma, beta = (g.constant(np.full(hidden, value)) for value in (1.0, 0.0))
        return g.add("LayerNormalization", x, gamma, beta, axis=-1)

    def by_head(x: str, *order: int) -> str:
        return g.transpose(
            g.reshape(g.linear(x, hidden, hidden), 1, tokens, heads, hidden // heads), *order
        )

    for _ in range(4):
        q, k, v = by_head(x, 0, 2, 1, 3), by_head(x, 0, 2, 3, 1), by_head(x, 0, 2, 1, 3)
        weights = g.add("Softmax", g.add("Mul", g.add("MatMul", q, k), scale), axis=-1)
        mixed = g.reshape(g.transpose(g.add("MatMul", weights, v), 0, 2, 1, 3), 1, tokens, hidden)
        x = norm(g.add("Add", g.linear(mixed, hidden, hidden), x))
        y = g.gelu(g.linear(x, hidden, 4 * hidden))
        x = norm(g.add("Add", g.linear(y, 4 * hidden, hidden), x))
    g.output(x)
    return g


NETWORKS: dict[str, Callable[[], OnnxGraph]] = {
    "alexnet": _alexnet,
    "resnet-18": lambda: _resnet([2, 2, 2, 2], bottleneck=False),
    "resnet-50": lambda: _resnet([3, 4, 6, 3], bottleneck=True),
    "mobilenet": _mobilenet,
    "squeezenet": _squeezenet,
    "bert-small": _bert_small,
}


def save(name: str, path: Path) -> None:
    """Write a network, one of `NETWORKS`, to an ONNX file."""
    onnx.save(NETWORKS[name]().model(), path)
