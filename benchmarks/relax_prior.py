"""Make a prior of MetaSchedule's searches on CPUs: results of common layers.

All layers get as many trials, and learn from each other, but not from an earlier prior.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import tvm
from tvm import relax

from autotvm_opevo.meta_schedule import OpEvoStrategy, as_target, local_target, tune_network
from autotvm_opevo.meta_schedule import strategy as strategy_module
from autotvm_opevo.meta_schedule.history import read_history
from autotvm_opevo.meta_schedule.prior import prior_file
from autotvm_opevo.tuning.prior import write_prior
from benchmarks.layers import CONVOLUTIONS, DENSE, DEPTHWISE, MEANS, POOLS, SOFTMAX


class _Layers:
    """Layers side by side, each with an input of its own."""

    def __init__(self) -> None:
        self._rng = np.random.default_rng(0)
        self._inputs: list[Any] = []
        self._weights: dict[Any, Any] = {}
        self._layers: list[tuple[Any, Callable[[Any], Any]]] = []

    def weight(self, *shape: int) -> Any:
        variable = relax.Var(f"weight{len(self._weights)}", relax.TensorType(shape, "float32"))
        self._weights[variable] = tvm.runtime.tensor(self._rng.standard_normal(shape, dtype="float32"))
        return variable

    def add(self, shape: tuple[int, ...], layer: Callable[[Any], Any]) -> None:
        variable = relax.Var(f"data{len(self._inputs)}", relax.TensorType(shape, "float32"))
        self._inputs.append(variable)
        self._layers.append((variable, layer))

    def convolution(self, image: int, inputs: int, outputs: int, kernel: int, stride: int, groups: int = 1) -> None:
        weight, bias = self.weight(kernel, kernel, inputs // groups, outputs), self.weight(1, 1, 1, outputs)
        options = {"strides": stride, "padding": kernel // 2, "groups": groups, "data_layout": "NHWC", "kernel_layout": "HWIO"}
        self.add((1, image, image, inputs), lambda x: _relu(relax.op.nn.conv2d(x, weight, **options), bias))

    def pool(self, image: int, channels: int, window: int, stride: int) -> None:
        options = {"pool_size": (window, window), "strides": (stride, stride), "layout": "NHWC"}
        self.add((1, image, image, channels), lambda x: relax.op.nn.max_pool2d(x, **options))

    def dense(self, rows: int, inputs: int, outputs: int) -> None:
        weight, bias = self.weight(outputs, inputs), self.weight(1, outputs)
        self.add((rows, inputs), lambda x: _relu(relax.op.matmul(x, relax.op.permute_dims(weight)), bias))

    def build(self) -> tuple[tvm.IRModule, dict[str, Any]]:
        builder = relax.BlockBuilder()
        with builder.function("main", [*self._inputs, *self._weights]):
            with builder.dataflow():
                results = [builder.emit(builder.normalize(layer(x))) for x, layer in self._layers]
                output = builder.emit_output(relax.Tuple(results))
            builder.emit_func_output(output)
        return builder.finalize(), {variable.name: weight for variable, weight in self._weights.items()}


def _relu(x: Any, bias: Any) -> Any:
    return relax.op.nn.relu(relax.op.add(x, bias))


def layers() -> tuple[tvm.IRModule, dict[str, Any]]:
    """All layers as one network."""
    net = _Layers()
    for convolution in CONVOLUTIONS:
        net.convolution(*convolution)
    for image, channels, stride in DEPTHWISE:
        net.convolution(image, channels, channels, 3, stride, groups=channels)
    for dense in DENSE:
        net.dense(*dense)
    for pool in POOLS:
        net.pool(*pool)
    for shape in SOFTMAX:
        net.add(shape, relax.op.nn.softmax)
    for image, channels in MEANS:
        net.add((1, image, image, channels), lambda x: relax.op.mean(x, axis=[1, 2]))
    return net.build()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", default=local_target(), help="default: this machine's CPU")
    parser.add_argument("--trials", type=int, default=64, help="of each layer (default: 64)")
    parser.add_argument("--work-dir", help="MetaSchedule's work directory; resumed if it exists (default: a temporary one)")
    parser.add_argument("--output", type=Path, help="default: the package's file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(options.work_dir or temporary)
        mod, params = layers()
        target = as_target(options.target)
        count = len(CONVOLUTIONS) + len(DEPTHWISE) + len(DENSE) + len(POOLS) + len(SOFTMAX) + len(MEANS)
        strategy = OpEvoStrategy(seed=0)
        with mock.patch.object(strategy_module, "prior", return_value=()):
            tune_network(
                mod,
                params,
                target,
                folder,
                count * options.trials,
                strategy=strategy,
                task_scheduler="equal",
                seed=0,
                evaluate=False,
            )
        write_prior(options.output or prior_file(target), {"": read_history([folder])})


if __name__ == "__main__":
    main()
