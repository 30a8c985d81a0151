"""Record the tuning records that the package bundles for AutoTVM on CPUs, into the package.

All tasks get as many trials, and learn from each other, but not from an earlier prior.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import tvm
from tvm import relay

from autotvm_opevo import tune_network
from autotvm_opevo.autotvm import tuner as tuner_module
from autotvm_opevo.autotvm.extraction import extract
from autotvm_opevo.autotvm.folding import fold
from autotvm_opevo.autotvm.history import prior_file, read_history
from autotvm_opevo.autotvm.targets import local_cpu_target
from benchmarks.layers import CONVOLUTIONS, DENSE, DEPTHWISE, TRIALS, write_prior


def layers() -> tuple[tvm.IRModule, dict[str, Any]]:
    """All layers side by side in one network, each with an input of its own."""
    rng = np.random.default_rng(0)
    params: dict[str, Any] = {}
    variables: list[Any] = []

    def weight(*shape: int) -> Any:
        name = f"weight{len(params)}"
        params[name] = tvm.nd.array(rng.standard_normal(shape, dtype="float32"))
        return relay.var(name, shape=shape)

    def data(*shape: int) -> Any:
        variables.append(relay.var(f"data{len(variables)}", shape=shape))
        return variables[-1]

    def convolution(
        image: int, inputs: int, outputs: int, kernel: int, stride: int, groups: int = 1
    ) -> Any:
        x, w = data(1, inputs, image, image), weight(outputs, inputs // groups, kernel, kernel)
        y = relay.nn.conv2d(
            x, w, stride, kernel // 2, groups=groups, channels=outputs, kernel_size=kernel
        )
        return relay.nn.relu(relay.nn.bias_add(y, weight(outputs)))

    def dense(rows: int, inputs: int, outputs: int) -> Any:
        y = relay.nn.dense(data(rows, inputs), weight(outputs, inputs))
        return relay.nn.relu(relay.nn.bias_add(y, weight(outputs)))

    outputs = [convolution(*one) for one in CONVOLUTIONS]
    outputs += [
        convolution(image, channels, channels, 3, stride, channels)
        for image, channels, stride in DEPTHWISE
    ]
    outputs += [dense(*one) for one in DENSE]
    network = relay.Tuple(outputs)
    return tvm.IRModule.from_expr(
        relay.Function(relay.analysis.free_vars(network), network)
    ), params


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", default=local_cpu_target(), help="default: this machine's CPU")
    target = tvm.target.Target(parser.parse_args().target)
    mod, params = layers()
    tasks = extract(fold(mod, params), target).tasks
    trials = len(tasks) * TRIALS
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "layers.json")
        with mock.patch.object(tuner_module, "prior", return_value=()):
            tune_network(
                mod, params, target, log, trials, task_scheduler="equal", seed=0, evaluate=False
            )
        history = read_history([log], Path())
        write_prior(
            prior_file(target),
            {name: history.sources(name, target) for name in sorted({task.name for task in tasks})},
        )


if __name__ == "__main__":
    main()
