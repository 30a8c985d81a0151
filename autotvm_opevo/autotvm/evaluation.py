"""A network before and after tuning: compiled twice, checked against each other, and timed in turn."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import autotvm, relay
from tvm.autotvm.measure.measure import Runner
from tvm.autotvm.measure.measure_methods import request_remote
from tvm.contrib import graph_executor

from autotvm_opevo.autotvm.processes import run_with_timeout
from autotvm_opevo.autotvm.rpc import is_remote
from autotvm_opevo.tuning.speedup import Array, Speedup, compared

# The networks are timed so many times, in turn and for at least so many milliseconds each time.
_TIMES, _AT_LEAST_MS = 9, 50
# Seconds until a remote device is free, and for which it is then had.
_WAIT, _SESSION = 300, 600


def compare(
    mod: tvm.IRModule, params: dict[str, tvm.nd.NDArray], target: tvm.target.Target, best_file: Path, runner: Runner
) -> Speedup:
    """Build a network as it is without tuning and with the records of a file, and run both where the runner runs its trials."""
    libraries = [build(mod, params, target), build(mod, params, target, best_file)]
    inputs = random_inputs(mod, params)
    # A thread of its own, which a hung device may have for ever.
    results = run_with_timeout(
        _SESSION, lambda: time_interleaved(libraries, inputs, target, runner), "the device to run the networks"
    )
    (expected, outputs), (before, after) = results
    return compared(expected, outputs, before, after)


def build(mod: tvm.IRModule, params: dict[str, tvm.nd.NDArray], target: tvm.target.Target, best_file: Path | None = None) -> Any:
    """Compile a network with the records of a file, or untuned."""
    # Also for the untuned network, whose records are none: without a context TVM would look for pre-tuned ones on the network.
    with _quiet(), autotvm.apply_history_best(str(best_file) if best_file else []), tvm.transform.PassContext(opt_level=3):
        return relay.build(mod, target=target, params=params)


def time_interleaved(
    libraries: Sequence[Any], inputs: dict[str, Array], target: tvm.target.Target, runner: Runner
) -> tuple[list[list[Array]], list[list[float]]]:
    """Outputs of compiled networks on the same inputs, and their latencies in seconds, taken in turn: chance favours none."""
    with _device(target, runner) as (device, load):
        modules = [graph_executor.GraphModule(load(library)["default"](device)) for library in libraries]
        outputs = [_run(module, inputs) for module in modules]
        evaluators = [m.module.time_evaluator("run", device, number=1, repeat=1, min_repeat_ms=_AT_LEAST_MS) for m in modules]
        rounds = [[evaluate().mean for evaluate in evaluators] for _ in range(_TIMES)]
    return outputs, [list(latencies) for latencies in zip(*rounds)]


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the warning that the network is not tuned."""
    before, autotvm.GLOBAL_SCOPE.silent = autotvm.GLOBAL_SCOPE.silent, True
    try:
        yield
    finally:
        autotvm.GLOBAL_SCOPE.silent = before


@contextmanager
def _device(target: tvm.target.Target, runner: Runner) -> Iterator[tuple[tvm.runtime.Device, Callable[[Any], Any]]]:
    """The device, and how a library gets there: one of the farm's, or this machine's own."""
    if not is_remote(runner):
        yield tvm.device(target.kind.name, 0), lambda library: library
        return

    def request() -> Any:
        return request_remote(runner.key, runner.host, runner.port, timeout=_SESSION)

    remote = run_with_timeout(_WAIT, request, f"a free device of key {runner.key!r}")
    with tempfile.TemporaryDirectory() as folder:
        names = count()

        def load(library: Any) -> Any:
            path = Path(folder) / f"network{next(names)}.tar"
            library.export_library(str(path))
            remote.upload(str(path))
            return remote.load_module(path.name)

        yield remote.device(target.kind.name, 0), load


def random_inputs(mod: tvm.IRModule, params: dict[str, tvm.nd.NDArray]) -> dict[str, Array]:
    """The same arbitrary inputs for both; integers, which may be indices, are 0 and 1."""
    rng = np.random.default_rng(0)
    arrays = {}
    for variable in mod["main"].params:
        if variable.name_hint not in params:
            kind = variable.checked_type
            shape = tuple(map(int, kind.shape))
            drawn = rng.standard_normal(shape) if "float" in kind.dtype else rng.integers(0, 2, shape)
            arrays[variable.name_hint] = drawn.astype(kind.dtype)
    return arrays


def _run(module: Any, inputs: dict[str, Array]) -> list[Array]:
    module.run(**inputs)
    return [module.get_output(i).numpy() for i in range(module.get_num_outputs())]
