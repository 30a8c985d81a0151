"""Something to tune: well-known networks, one operator, or a model file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np
import tvm
from tvm import relay
from tvm.relay import testing

from autotvm_opevo._utils.imports import ONNX
from autotvm_opevo._utils.text import last_line

Model = tuple[tvm.IRModule, dict[str, tvm.nd.NDArray]]


def alexnet(batch: int = 1) -> Model:
    """AlexNet for images of 224 x 224, with one column of channels (Krizhevsky 2014), and arbitrary weights.

    Examples
    --------
    >>> mod, params = alexnet()
    >>> len(params), sum(int(np.prod(p.shape)) for p in params.values())
    (16, 61100840)
    """
    x = relay.var("data", shape=(batch, 3, 224, 224))
    for i, (channels, kernel, stride, padding, pooled) in enumerate(
        [(64, 11, 4, 2, True), (192, 5, 1, 2, True), (384, 3, 1, 1, False), (256, 3, 1, 1, False), (256, 3, 1, 1, True)], start=1
    ):
        weight, bias = relay.var(f"conv{i}_weight"), relay.var(f"conv{i}_bias")
        shape = {
            "channels": channels,
            "kernel_size": (kernel, kernel),
            "strides": (stride, stride),
            "padding": (padding, padding),
        }
        x = relay.nn.relu(relay.nn.bias_add(relay.nn.conv2d(x, weight, **shape), bias))
        if pooled:
            x = relay.nn.max_pool2d(x, pool_size=(3, 3), strides=(2, 2))
    x = relay.nn.batch_flatten(x)
    for i, units in enumerate([4096, 4096, 1000], start=1):
        x = relay.nn.bias_add(relay.nn.dense(x, relay.var(f"dense{i}_weight"), units=units), relay.var(f"dense{i}_bias"))
        x = relay.nn.relu(x) if units > 1000 else relay.nn.softmax(x)
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function(relay.analysis.free_vars(x), x)))
    return mod, _weights(mod, but="data")


def network(name: str, batch: int = 1) -> Model:
    """A network by its name, one of `NETWORKS`, with arbitrary weights.

    Raises
    ------
    ValueError
        If there is none of that name.
    """
    if name not in NETWORKS:
        raise ValueError(f"network must be one of {', '.join(NETWORKS)}; {name!r} given")
    before = np.random.get_state()  # noqa: NPY002  TVM's test networks seed the global generator
    try:
        return NETWORKS[name](batch)
    finally:
        np.random.set_state(before)  # noqa: NPY002


NETWORKS: dict[str, Callable[[int], Model]] = {
    "alexnet": alexnet,
    "mlp": lambda batch: testing.mlp.get_workload(batch),
    "mobilenet": lambda batch: testing.mobilenet.get_workload(batch),
    "resnet-18": lambda batch: testing.resnet.get_workload(batch, num_layers=18),
    "resnet-50": lambda batch: testing.resnet.get_workload(batch, num_layers=50),
    "squeezenet": lambda batch: testing.squeezenet.get_workload(batch),
    "vgg-16": lambda batch: testing.vgg.get_workload(batch, num_layers=16),
}


def operator(
    name: str, shapes: Sequence[Sequence[int]], dtype: str = "float32", attributes: Mapping[str, Any] | None = None
) -> Model:
    """One of Relay's operators as a network, which AutoTVM finds TOPI's templates for.

    Parameters
    ----------
    name : str
        As Relay has it, ``"nn.conv2d"`` for example.
    shapes : sequence of sequence of int
        Of the tensors it takes, weights included.
    dtype : str
        Of all of them.
    attributes : dict, optional
        Its other arguments: ``{"strides": (2, 2)}``.

    Raises
    ------
    ValueError
        If Relay has no such operator, or it cannot be used like that.

    Examples
    --------
    >>> mod, _ = operator("nn.dense", [(8, 16), (32, 16)])
    >>> [int(extent) for extent in mod["main"].ret_type.shape]
    [8, 32]
    """
    found: Any = relay
    for part in name.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise ValueError(f"operator must be one of Relay's, such as nn.dense or nn.conv2d; {name!r} given")
    try:
        tvm.DataType(dtype)
    except (ValueError, tvm.TVMError):
        raise ValueError(f"dtype must be one of TVM's, such as float32 or int8; {dtype!r} given") from None
    if name == "nn.dense" and len({tuple(shape)[-1:] for shape in shapes}) > 1:  # which Relay does not look at
        raise ValueError(f"operator nn.dense takes tensors with as many columns, {list(map(tuple, shapes))} given")
    inputs = [relay.var(f"input{i}", shape=tuple(shape), dtype=dtype) for i, shape in enumerate(shapes)]
    try:
        return relay.transform.InferType()(
            tvm.IRModule.from_expr(relay.Function(inputs, found(*inputs, **(attributes or {}))))
        ), {}
    except (TypeError, ValueError, tvm.TVMError) as error:
        raise ValueError(
            f"operator {name} cannot take tensors of {list(map(tuple, shapes))} with {attributes or {}}: {last_line(str(error))}"
        ) from error


def model_file(path: str | PathLike[str], shapes: Mapping[str, Sequence[int]] | None = None) -> Model:
    """A model of another framework, as far as TVM's frontends read it: ONNX, and what else is installed.

    Parameters
    ----------
    path : str or path
        The file; its ending says what it is.
    shapes : dict, optional
        Of the inputs, by name, where the model leaves them open.

    Raises
    ------
    ValueError
        If the file cannot be read, or leaves a shape open that is not given.
    ImportError
        If the framework is not installed.
    """
    from tvm.driver import tvmc

    try:
        model = tvmc.load(str(path), shape_dict={name: list(shape) for name, shape in (shapes or {}).items()} or None)
    except tvmc.TVMCImportError as error:
        raise ImportError(f"to read {path}, install {error}: for ONNX, pip install '{ONNX}'") from error
    except Exception as error:  # every framework has its own for what it cannot read
        why = "its name ends in nothing that they know, such as .onnx" if "infer the model format" in str(error) else str(error)
        raise ValueError(f"cannot read {path} with TVM's frontends: {why}") from error
    for variable in model.mod["main"].params:
        extents = ["1" if isinstance(extent, tvm.tir.Any) else str(extent) for extent in variable.type_annotation.shape]
        if any(isinstance(extent, tvm.tir.Any) for extent in variable.type_annotation.shape):
            raise ValueError(
                f"the shape of input {variable.name_hint!r} of {path} must be given, which the file leaves open: for example "
                f"--shape {variable.name_hint}={'x'.join(extents)} on the command line"
            )
    return model.mod, model.params


def _weights(mod: tvm.IRModule, but: str) -> dict[str, tvm.nd.NDArray]:
    """Arbitrary weights that keep what flows through a network at its size, for all its variables but one."""
    rng = np.random.default_rng(0)
    weights = {}
    for variable in mod["main"].params:
        if variable.name_hint != but:
            shape = tuple(map(int, variable.checked_type.shape))
            scale = np.sqrt(2.0 / np.prod(shape[1:])) if len(shape) > 1 else 0.1
            weights[variable.name_hint] = tvm.nd.array(rng.standard_normal(shape, dtype="float32") * np.float32(scale))
    return weights
