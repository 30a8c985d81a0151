"""Workloads in Relay: well-known networks, single operators, model files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import relay

from autotvm_opevo._utils.text import last_line
from autotvm_opevo.networks import alexnet as layers
from autotvm_opevo.networks.names import check_network
from autotvm_opevo.networks.onnx_inputs import check_known, import_error, load_onnx, static_shapes

Model = tuple[tvm.IRModule, dict[str, tvm.nd.NDArray]]


def alexnet(batch: int = 1) -> Model:
    """AlexNet for images of 224 x 224, with one column of channels (Krizhevsky 2014), and random
    weights.

    Examples
    --------
    >>> mod, params = alexnet()
    >>> len(params), sum(int(np.prod(p.shape)) for p in params.values())
    (16, 61100840)
    """
    x = relay.var("data", shape=(batch, *layers.INPUT))
    for i, layer in enumerate(layers.CONVOLUTIONS, start=1):
        weight, bias = relay.var(f"conv{i}_weight"), relay.var(f"conv{i}_bias")
        shape = {
            "channels": layer.channels,
            "kernel_size": (layer.kernel, layer.kernel),
            "strides": (layer.stride, layer.stride),
            "padding": (layer.padding, layer.padding),
        }
        x = relay.nn.relu(relay.nn.bias_add(relay.nn.conv2d(x, weight, **shape), bias))
        if layer.pooled:
            x = relay.nn.max_pool2d(x, pool_size=(3, 3), strides=(2, 2))
    x = relay.nn.batch_flatten(x)
    for i, units in enumerate(layers.DENSE, start=1):
        x = relay.nn.bias_add(
            relay.nn.dense(x, relay.var(f"dense{i}_weight"), units=units),
            relay.var(f"dense{i}_bias"),
        )
        x = relay.nn.relu(x) if i < len(layers.DENSE) else relay.nn.softmax(x)
    mod = relay.transform.InferType()(
        tvm.IRModule.from_expr(relay.Function(relay.analysis.free_vars(x), x))
    )
    return mod, _random_weights(mod, excluding="data")


def network(name: str, batch: int = 1) -> Model:
    """Create a network by name, one of `NETWORKS`, with random weights.

    Raises
    ------
    ValueError
        If the name is unknown.
    """
    check_network(name, NETWORKS)
    before = np.random.get_state()  # noqa: NPY002  TVM's test networks seed the global generator
    try:
        return NETWORKS[name](batch)
    finally:
        np.random.set_state(before)  # noqa: NPY002


NETWORKS: dict[str, Callable[[int], Model]] = {
    "alexnet": alexnet,
    "mlp": lambda batch: _testing().mlp.get_workload(batch),
    "mobilenet": lambda batch: _testing().mobilenet.get_workload(batch),
    "resnet-18": lambda batch: _testing().resnet.get_workload(batch, num_layers=18),
    "resnet-50": lambda batch: _testing().resnet.get_workload(batch, num_layers=50),
    "squeezenet": lambda batch: _testing().squeezenet.get_workload(batch),
    "vgg-16": lambda batch: _testing().vgg.get_workload(batch, num_layers=16),
}


def _testing() -> Any:
    """TVM's test networks, whose import needs that of setuptools, and takes as long."""
    from tvm.relay import testing

    return testing


def operator(
    name: str,
    shapes: Sequence[Sequence[int]],
    dtype: str = "float32",
    attributes: Mapping[str, Any] | None = None,
) -> Model:
    """Create a network of a single Relay operator, which AutoTVM tunes with TOPI's templates.

    Parameters
    ----------
    name : str
        Below ``tvm.relay``, such as ``"nn.conv2d"``.
    shapes : sequence of sequence of int
        Shapes of its tensors, weights included.
    dtype : str
        Their common dtype.
    attributes : dict, optional
        Its other arguments, such as ``{"strides": (2, 2)}``.

    Raises
    ------
    ValueError
        If Relay has no such operator, or it does not take these arguments.

    Examples
    --------
    >>> mod, _ = operator("nn.dense", [(8, 16), (32, 16)])
    >>> [int(extent) for extent in mod["main"].ret_type.shape]
    [8, 32]
    """
    function: Any = relay
    for part in name.split("."):
        function = getattr(function, part, None)
    if not callable(function):
        raise ValueError(
            f"operator must be one of Relay's, such as nn.dense or nn.conv2d; {name!r} given"
        )
    try:
        tvm.DataType(dtype)
    except (ValueError, tvm.TVMError):
        raise ValueError(
            f"dtype must be one of TVM's, such as float32 or int8; {dtype!r} given"
        ) from None
    # Relay does not check this
    if name == "nn.dense" and len({tuple(shape)[-1:] for shape in shapes}) > 1:
        raise ValueError(
            "operator nn.dense takes tensors with equally many columns, "
            f"{list(map(tuple, shapes))} given"
        )
    inputs = [
        relay.var(f"input{i}", shape=tuple(shape), dtype=dtype) for i, shape in enumerate(shapes)
    ]
    try:
        return relay.transform.InferType()(
            tvm.IRModule.from_expr(relay.Function(inputs, function(*inputs, **(attributes or {}))))
        ), {}
    except (TypeError, ValueError, tvm.TVMError) as error:
        raise ValueError(
            f"operator {name} cannot take tensors of {list(map(tuple, shapes))} with "
            f"{attributes or {}}: {last_line(str(error))}"
        ) from error


def model_file(
    path: str | PathLike[str],
    shapes: Mapping[str, Sequence[int]] | None = None,
    layout: str | None = None,
) -> Model:
    """Load a model of another framework with TVM's frontends: ONNX, or others that are installed.

    Parameters
    ----------
    path : str or path
        The file; its extension tells the format.
    shapes : dict, optional
        Shapes of inputs, by the names in the file, where the model has dynamic dimensions.
    layout : str, optional
        The layout that two-dimensional convolutions are converted to, such as ``"NCHW"``.

    Raises
    ------
    ValueError
        If the file cannot be read, an ONNX file has no input of a name, a dynamic shape is not
        given, or its convolutions cannot have the layout.
    ImportError
        If the framework is not installed.
    """
    if Path(path).suffix.lower() == ".onnx":
        model = load_onnx(path)
        static = static_shapes(path, model, shapes)
        try:
            mod, params = relay.frontend.from_onnx(model, shape=static)
        except Exception as error:  # TVM raises many kinds
            raise import_error(path, error, static) from error
        return (_with_layout(mod, layout) if layout else mod), params
    from tvm.driver import tvmc

    try:
        loaded = tvmc.load(
            str(path),
            shape_dict={name: list(shape) for name, shape in (shapes or {}).items()} or None,
        )
    except tvmc.TVMCImportError as error:
        package = str(error).partition(".")[0]  # of a module of it
        raise ImportError(f"to read {path}, install {package}") from error
    except Exception as error:  # each frontend raises its own
        why = (
            "unknown file extension; use one such as .onnx"
            if "infer the model format" in str(error)
            else str(error)
        )
        raise ValueError(f"cannot read {path} with TVM's frontends: {last_line(why)}") from error
    extents = {
        variable.name_hint: [
            int(extent) if isinstance(extent, tvm.tir.IntImm) else None
            for extent in getattr(variable.type_annotation, "shape", ())
        ]
        for variable in loaded.mod["main"].params
    }
    check_known(extents, path)
    return (_with_layout(loaded.mod, layout) if layout else loaded.mod), loaded.params


def _with_layout(mod: tvm.IRModule, layout: str) -> tvm.IRModule:
    from tvm.driver.tvmc.transform import convert_graph_layout

    try:
        with tvm.transform.PassContext(opt_level=3):
            return convert_graph_layout(mod, layout)
    except Exception as error:  # what it raises depends on the layout
        why = last_line(str(error))
        raise ValueError(
            f"layout must be one that TVM converts to, such as NCHW; {layout!r} given: {why}"
        ) from error


def _random_weights(mod: tvm.IRModule, excluding: str) -> dict[str, tvm.nd.NDArray]:
    """He-initialized weights, which preserve the activations' scale, for all variables but one."""
    rng = np.random.default_rng(0)
    weights = {}
    for variable in mod["main"].params:
        if variable.name_hint != excluding:
            shape = tuple(map(int, variable.checked_type.shape))
            scale = np.sqrt(2.0 / np.prod(shape[1:])) if len(shape) > 1 else 0.1
            weights[variable.name_hint] = tvm.nd.array(
                rng.standard_normal(shape, dtype="float32") * np.float32(scale)
            )
    return weights
