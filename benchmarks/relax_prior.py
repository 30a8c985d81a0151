"""Record the tuning records that the package bundles for MetaSchedule on CPUs, into the package.

    # ten minutes
    .venv/tvm/bin/python -m benchmarks.relax_prior --target "llvm -mcpu=core-avx2"

All tasks get as many trials, and learn from each other and from the kinds before, but not from an
earlier prior.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import tvm
from tvm import relax
from tvm.s_tir.meta_schedule.relax_integration import extract_tasks

from autotvm_opevo.lowering.fast_math import FAST_MATH
from autotvm_opevo.meta_schedule import (
    OpEvoStrategy,
    as_target,
    lower_for_tuning,
    tune_network,
)
from autotvm_opevo.meta_schedule import strategy as strategy_module
from autotvm_opevo.meta_schedule.history import read_history
from autotvm_opevo.meta_schedule.strategy import prior_file
from autotvm_opevo.meta_schedule.targets import local_cpu_target
from benchmarks.layers import (
    BATCH_MATMUL,
    CONVOLUTIONS,
    DENSE,
    DEPTHWISE,
    MATMUL,
    MEANS,
    POOLS,
    SOFTMAX,
    TRIALS,
    WINOGRAD,
    write_prior,
)


class _Layers:
    """Layers side by side, each with an input of its own."""

    def __init__(self) -> None:
        self._rng = np.random.default_rng(0)
        self._inputs: list[Any] = []
        self._weights: dict[Any, Any] = {}
        self._layers: list[tuple[list[Any], Callable[..., Any]]] = []

    def weight(self, *shape: int) -> Any:
        variable = relax.Var(f"weight{len(self._weights)}", relax.TensorType(shape, "float32"))
        self._weights[variable] = tvm.runtime.tensor(
            self._rng.standard_normal(shape, dtype="float32")
        )
        return variable

    def add(self, layer: Callable[..., Any], *shapes: tuple[int, ...]) -> None:
        first = len(self._inputs)
        variables = [
            relax.Var(f"data{first + i}", relax.TensorType(shape, "float32"))
            for i, shape in enumerate(shapes)
        ]
        self._inputs += variables
        self._layers.append((variables, layer))

    def convolution(
        self, image: int, inputs: int, outputs: int, kernel: int, stride: int, groups: int = 1
    ) -> None:
        weight = self.weight(kernel, kernel, inputs // groups, outputs)
        bias = self.weight(1, 1, 1, outputs)
        options = {
            "strides": stride,
            "padding": kernel // 2,
            "groups": groups,
            "data_layout": "NHWC",
            "kernel_layout": "HWIO",
        }
        self.add(
            lambda x: _relu(relax.op.nn.conv2d(x, weight, **options), bias),
            (1, image, image, inputs),
        )

    def depthwise(self, image: int, channels: int, stride: int) -> None:
        self.convolution(image, channels, channels, 3, stride, groups=channels)

    def pool(self, image: int, channels: int, window: int, stride: int) -> None:
        options = {"pool_size": (window, window), "strides": (stride, stride), "layout": "NHWC"}
        self.add(lambda x: relax.op.nn.max_pool2d(x, **options), (1, image, image, channels))

    def dense(self, rows: int, inputs: int, outputs: int) -> None:
        weight, bias = self.weight(outputs, inputs), self.weight(1, outputs)
        self.add(
            lambda x: _relu(relax.op.matmul(x, relax.op.permute_dims(weight)), bias), (rows, inputs)
        )

    def batch_matmul(self, matrices: int, rows: int, inputs: int, columns: int) -> None:
        self.add(relax.op.matmul, (matrices, rows, inputs), (matrices, inputs, columns))

    def softmax(self, *shape: int) -> None:
        self.add(relax.op.nn.softmax, shape)

    def mean(self, image: int, channels: int) -> None:
        self.add(lambda x: relax.op.mean(x, axis=[1, 2]), (1, image, image, channels))

    def build(self) -> tuple[tvm.IRModule, dict[str, Any]]:
        builder = relax.BlockBuilder()
        with builder.function("main", [*self._inputs, *self._weights]):
            with builder.dataflow():
                results = [builder.emit(builder.normalize(layer(*x))) for x, layer in self._layers]
                output = builder.emit_output(relax.Tuple(results))
            builder.emit_func_output(output)
        return builder.finalize(), {
            variable.name: weight for variable, weight in self._weights.items()
        }


def _relu(x: Any, bias: Any) -> Any:
    return relax.op.nn.relu(relax.op.add(x, bias))


# How layers of a kind are added, and their shapes.
KINDS: dict[str, tuple[Callable[..., None], Sequence[tuple[int, ...]]]] = {
    "convolution": (_Layers.convolution, CONVOLUTIONS),
    "winograd": (_Layers.convolution, WINOGRAD),
    "depthwise": (_Layers.depthwise, DEPTHWISE),
    "dense": (_Layers.dense, DENSE),
    "matmul": (_Layers.dense, MATMUL),
    "batch_matmul": (_Layers.batch_matmul, BATCH_MATMUL),
    "pool": (_Layers.pool, POOLS),
    "softmax": (_Layers.softmax, SOFTMAX),
    "mean": (_Layers.mean, MEANS),
}


def layers(kind: str) -> tuple[tvm.IRModule, dict[str, Any]]:
    """All layers of a kind as one network; only the kind ``winograd`` has convolutions by
    Winograd's algorithm.
    """
    net = _Layers()
    add, shapes = KINDS[kind]
    for shape in shapes:
        add(net, *shape)
    mod, params = net.build()
    return (mod if kind == "winograd" else relax.transform.LegalizeOps(FAST_MATH)(mod)), params


def record(kind: str, target: tvm.target.Target, folder: Path) -> None:
    """Tune the layers of a kind with as many trials for each of their tasks."""
    mod, params = layers(kind)
    tasks = extract_tasks(lower_for_tuning(mod, params, target), target)
    options: dict[str, Any] = {
        "strategy": OpEvoStrategy(seed=0),
        "task_scheduler": "equal",
        "seed": 0,
        "evaluate": False,
    }
    tune_network(mod, params, target, folder, len(tasks) * TRIALS, **options)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", default=local_cpu_target(), help="default: this machine's CPU")
    target = as_target(parser.parse_args().target)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        with mock.patch.object(strategy_module, "prior", return_value=()):
            for kind in KINDS:
                record(kind, target, folder)
        write_prior(prior_file(target), {"": read_history([folder])})


if __name__ == "__main__":
    main()
