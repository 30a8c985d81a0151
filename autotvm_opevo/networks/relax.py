"""Workloads in Relax: well-known networks, single operators, ONNX files."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from io import StringIO
from os import PathLike
from typing import Any

import numpy as np
import tvm
from tvm import relax

from autotvm_opevo._utils.text import last_line
from autotvm_opevo.networks import alexnet as layers
from autotvm_opevo.networks.names import check_network
from autotvm_opevo.networks.onnx_inputs import import_error, inputs_of, load_onnx, static_shapes

Model = tuple[tvm.IRModule, dict[str, tvm.runtime.Tensor]]
Layer = Callable[[Any], Any]


class _NetworkBuilder:
    """Build a network of layers with He-initialized weights, which preserve activations' scale."""

    def __init__(self, *shape: int) -> None:
        self._rng = np.random.default_rng(0)
        self._data = relax.Var("data", relax.TensorType(shape, "float32"))
        self._weights: dict[relax.Var, tvm.runtime.Tensor] = {}
        self._layers: list[Layer] = []

    def weight(self, name: str, *shape: int, mean: float = 0.0) -> relax.Var:
        scale = np.sqrt(2.0 / np.prod(shape[1:])) if len(shape) > 1 and shape[0] > 1 else 0.1
        variable = relax.Var(name, relax.TensorType(shape, "float32"))
        values = self._rng.standard_normal(shape, dtype="float32") * np.float32(scale)
        self._weights[variable] = tvm.runtime.tensor(values + np.float32(mean))
        return variable

    def add(self, *layers: Layer) -> None:
        self._layers += layers

    def conv2d(
        self, name: str, inputs: int, outputs: int, kernel: int, stride: int, padding: int
    ) -> Layer:
        weight = self.weight(f"{name}_weight", outputs, inputs, kernel, kernel)
        bias = self.weight(f"{name}_bias", 1, outputs, 1, 1)
        return lambda x: relax.op.add(
            relax.op.nn.conv2d(x, weight, strides=stride, padding=padding), bias
        )

    def dense(self, name: str, inputs: int, outputs: int) -> Layer:
        weight = self.weight(f"{name}_weight", outputs, inputs)
        bias = self.weight(f"{name}_bias", 1, outputs)
        return lambda x: relax.op.add(relax.op.matmul(x, relax.op.permute_dims(weight)), bias)

    def add_dense(self, inputs: int, *outputs: int) -> None:
        """Dense layers, each but the last with a ReLU, and a softmax."""
        for i, size in enumerate(outputs, start=1):
            activation = relax.op.nn.relu if i < len(outputs) else relax.op.nn.softmax
            self.add(self.dense(f"dense{i}", inputs, size), activation)
            inputs = size

    def layer_norm(self, name: str, features: int) -> Layer:
        gamma = self.weight(f"{name}_gamma", features, mean=1.0)
        beta = self.weight(f"{name}_beta", features)
        return lambda x: relax.op.nn.layer_norm(x, gamma, beta, axes=[-1])

    def build(self) -> Model:
        builder = relax.BlockBuilder()
        with builder.function("main", [self._data, *self._weights]):
            with builder.dataflow():
                x: Any = self._data
                for layer in self._layers:
                    x = builder.emit(builder.normalize(layer(x)))
                x = builder.emit_output(x)
            builder.emit_func_output(x)
        weights = {variable.name: weight for variable, weight in self._weights.items()}
        return builder.finalize(), weights


def mlp(batch: int = 1) -> Model:
    """Three dense layers for images of 784 pixels: the fastest network to try.

    Examples
    --------
    >>> mod, params = mlp()
    >>> len(params)
    6
    """
    net = _NetworkBuilder(batch, 784)
    net.add_dense(784, 128, 64, 10)
    return net.build()


def alexnet(batch: int = 1) -> Model:
    """AlexNet for images of 224 x 224, with one column of channels (Krizhevsky 2014), and random
    weights.

    Examples
    --------
    >>> mod, params = alexnet()
    >>> len(params), sum(int(np.prod(p.shape)) for p in params.values())
    (16, 61100840)
    """
    net = _NetworkBuilder(batch, *layers.INPUT)
    channels = layers.INPUT[0]
    for i, (outputs, *window, pooled) in enumerate(layers.CONVOLUTIONS, start=1):
        net.add(net.conv2d(f"conv{i}", channels, outputs, *window), relax.op.nn.relu)
        if pooled:
            net.add(lambda x: relax.op.nn.max_pool2d(x, pool_size=(3, 3), strides=(2, 2)))
        channels = outputs
    net.add(lambda x: relax.op.reshape(x, (batch, layers.FEATURES)))
    net.add_dense(layers.FEATURES, *layers.DENSE)
    return net.build()


def resnet_18(batch: int = 1) -> Model:
    """ResNet-18 for images of 224 x 224 (He et al. 2016), with batch normalization folded into the
    convolutions.

    Examples
    --------
    >>> mod, params = resnet_18()
    >>> sum(name.endswith("weight") for name in params)
    21
    """
    net = _NetworkBuilder(batch, 3, 224, 224)
    net.add(net.conv2d("conv0", 3, 64, 7, 2, 3), relax.op.nn.relu)
    net.add(lambda x: relax.op.nn.max_pool2d(x, pool_size=(3, 3), strides=(2, 2), padding=(1, 1)))
    inputs = 64
    for stage, outputs in enumerate([64, 128, 256, 512], start=1):
        for block in (1, 2):
            name, stride = f"conv{stage}_{block}", 2 if stage > 1 and block == 1 else 1
            first = net.conv2d(f"{name}a", inputs, outputs, 3, stride, 1)
            second = net.conv2d(f"{name}b", outputs, outputs, 3, 1, 1)
            shortcut: Layer = lambda x: x  # noqa: E731
            if stride > 1:
                shortcut = net.conv2d(f"{name}c", inputs, outputs, 1, stride, 0)
            net.add(_residual(first, second, shortcut))
            inputs = outputs
    net.add(lambda x: relax.op.mean(x, axis=[2, 3]))
    net.add(net.dense("dense", 512, 1000), relax.op.nn.softmax)
    return net.build()


def _residual(first: Layer, second: Layer, shortcut: Layer) -> Layer:
    return lambda x: relax.op.nn.relu(relax.op.add(second(relax.op.nn.relu(first(x))), shortcut(x)))


def bert_small(batch: int = 1) -> Model:
    """The encoder of BERT-Small (Turc et al. 2019) for 128 embedded tokens, with random weights.

    Examples
    --------
    >>> mod, params = bert_small()
    >>> sum(name.endswith("weight") for name in params)
    24
    """
    tokens, hidden, heads = 128, 512, 8
    net = _NetworkBuilder(batch, tokens, hidden)
    for i in range(4):
        names = "query", "key", "value", "output"
        projections = [net.dense(f"{name}{i}", hidden, hidden) for name in names]
        first = net.dense(f"first{i}", hidden, 4 * hidden)
        second = net.dense(f"second{i}", 4 * hidden, hidden)
        net.add(_attention(projections, [batch, tokens, heads, hidden // heads]))
        net.add(net.layer_norm(f"attention_norm{i}", hidden))
        net.add(_feed_forward(first, second))
        net.add(net.layer_norm(f"norm{i}", hidden))
    return net.build()


def _attention(projections: Sequence[Layer], split: Sequence[int]) -> Layer:
    """Self-attention, with projections to query, key, value and output, and its shortcut; `split`
    is batch, tokens, heads, and features of a head.
    """
    (*inputs, output), (batch, tokens, heads, features) = projections, split

    def layer(x: Any) -> Any:
        parts = (relax.op.reshape(f(x), split) for f in inputs)
        q, k, v = (relax.op.permute_dims(part, [0, 2, 1, 3]) for part in parts)
        scores = relax.op.matmul(q, relax.op.permute_dims(k, [0, 1, 3, 2]))
        scores = relax.op.multiply(scores, relax.const(features**-0.5, "float32"))
        mixed = relax.op.matmul(relax.op.nn.softmax(scores), v)
        mixed = relax.op.permute_dims(mixed, [0, 2, 1, 3])
        return relax.op.add(output(relax.op.reshape(mixed, (batch, tokens, heads * features))), x)

    return layer


def _feed_forward(first: Layer, second: Layer) -> Layer:
    return lambda x: relax.op.add(second(relax.op.nn.gelu(first(x))), x)


NETWORKS: dict[str, Callable[[int], Model]] = {
    "alexnet": alexnet,
    "bert-small": bert_small,
    "mlp": mlp,
    "resnet-18": resnet_18,
}


def network(name: str, batch: int = 1) -> Model:
    """Create a network by name, one of `NETWORKS`, with random weights.

    Raises
    ------
    ValueError
        If the name is unknown.
    """
    check_network(name, NETWORKS)
    return NETWORKS[name](batch)


def operator(
    name: str,
    shapes: Sequence[Sequence[int]],
    dtype: str = "float32",
    attributes: Mapping[str, Any] | None = None,
) -> Model:
    """Create a network of a single Relax operator.

    Parameters
    ----------
    name : str
        Below ``tvm.relax.op``, such as ``"nn.conv2d"``.
    shapes : sequence of sequence of int
        Shapes of its tensors, weights included.
    dtype : str
        Their common dtype.
    attributes : dict, optional
        Its other arguments, such as ``{"strides": (2, 2)}``.

    Raises
    ------
    ValueError
        If Relax has no such operator, or it does not take these arguments.

    Examples
    --------
    >>> mod, _ = operator("matmul", [(8, 16), (16, 32)])
    >>> [int(extent) for extent in mod["main"].ret_ty.shape]
    [8, 32]
    """
    function: Any = relax.op
    for part in name.split("."):
        function = getattr(function, part, None)
    if not callable(function):
        raise ValueError(
            f"operator must be one of Relax's, such as matmul or nn.conv2d; {name!r} given"
        )
    builder = relax.BlockBuilder()
    try:
        types = [relax.TensorType(tuple(shape), dtype) for shape in shapes]
        inputs = [relax.Var(f"input{i}", kind) for i, kind in enumerate(types)]
        with builder.function("main", inputs):
            with builder.dataflow():
                output = builder.emit_output(function(*inputs, **(attributes or {})))
            builder.emit_func_output(output)
    except (AttributeError, RuntimeError, TypeError, ValueError) as error:
        raise ValueError(
            f"operator {name} cannot take tensors of {list(map(tuple, shapes))} with "
            f"{attributes or {}}: {last_line(str(error))}"
        ) from error
    return builder.finalize(), {}


def model_file(
    path: str | PathLike[str], shapes: Mapping[str, Sequence[int]] | None = None
) -> Model:
    """Load an ONNX model with TVM's frontend.

    Parameters
    ----------
    path : str or path
    shapes : dict, optional
        Shapes of inputs, where the model has dynamic dimensions: by the names in the file, or by
        those that Relax gives inputs whose names are no identifiers, such as ``input_1`` for
        ``input.1``.

    Raises
    ------
    ValueError
        If the file cannot be read, it has no input of a name, or a dynamic shape is not given.
    ImportError
        If onnx is not installed.
    """
    model = load_onnx(path)
    from tvm.relax.frontend.onnx import from_onnx

    static = static_shapes(path, model, shapes, lambda: _names_in_file(model))
    try:
        with redirect_stdout(StringIO()):  # TVM prints parts of the network before it raises
            return from_onnx(model, shape_dict=static), {}  # the module has the weights
    except Exception as error:  # TVM raises many kinds
        raise import_error(path, error, static) from error


def _names_in_file(model: Any) -> dict[str, str]:
    """The inputs' names in an ONNX file by those that Relax gives them."""
    from onnx import helper
    from tvm.relax.frontend.onnx import from_onnx

    inputs = inputs_of(model)
    alone = helper.make_model(
        helper.make_graph([], "inputs", inputs, inputs), opset_imports=model.opset_import
    )
    with warnings.catch_warnings():
        # of new names, and of what is wrong with a graph without nodes
        warnings.simplefilter("ignore")
        variables = from_onnx(alone)["main"].params
    return {variable.name: tensor.name for variable, tensor in zip(variables, inputs)}
