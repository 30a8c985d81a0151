"""A Relay network before and after tuning: built twice, its outputs compared, and timed in turn."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import tvm
from tvm import autotvm, relay
from tvm.autotvm.measure.measure import Runner
from tvm.autotvm.measure.measure_methods import request_remote
from tvm.contrib import graph_executor

from autotvm_opevo.autotvm.processes import run_with_timeout
from autotvm_opevo.autotvm.rpc import is_remote
from autotvm_opevo.tuning import speedup
from autotvm_opevo.tuning.speedup import MIN_REPEAT_MS, Array, Speedup, random_arrays

# Seconds to wait for a free remote device, and for which it is then reserved.
_REQUEST_TIMEOUT, _SESSION_TIMEOUT = 300, 600


def measure_speedup(
    mod: tvm.IRModule, params: dict[str, tvm.nd.NDArray], target: tvm.target.Target, best_file: Path, runner: Runner
) -> Speedup:
    """Build a network untuned and with the records of a file, and run both where `runner` runs the trials."""
    libraries = [build(mod, params, target), build(mod, params, target, best_file)]
    inputs = random_inputs(mod, params)
    # In a thread of its own, which a hung device may block for ever.
    outputs, latencies = run_with_timeout(
        _SESSION_TIMEOUT, lambda: time_interleaved(libraries, inputs, target, runner), "the device to run the networks"
    )
    return Speedup.from_runs(outputs, latencies)


def build(mod: tvm.IRModule, params: dict[str, tvm.nd.NDArray], target: tvm.target.Target, best_file: Path | None = None) -> Any:
    """Build a network with the records of a file, or untuned."""
    # The untuned one needs an empty context: without any, TVM downloads pre-tuned records.
    with _silent(), autotvm.apply_history_best(str(best_file) if best_file else []), tvm.transform.PassContext(opt_level=3):
        return relay.build(mod, target=target, params=params)


def time_interleaved(
    libraries: Sequence[Any], inputs: dict[str, Array], target: tvm.target.Target, runner: Runner
) -> tuple[list[list[Array]], list[list[float]]]:
    """Outputs of built networks on the same inputs, and their latencies in seconds, timed in turn."""
    with _device(target, runner) as (device, load):
        modules = [graph_executor.GraphModule(load(library)["default"](device)) for library in libraries]
        outputs = [_run(module, inputs) for module in modules]
        return outputs, speedup.time_interleaved([_timer(module, device) for module in modules])


def random_inputs(mod: tvm.IRModule, params: dict[str, tvm.nd.NDArray]) -> dict[str, Array]:
    """Reproducible random inputs of a network, by name."""
    inputs = [variable for variable in mod["main"].params if variable.name_hint not in params]
    types = [variable.checked_type for variable in inputs]
    arrays = random_arrays((tuple(map(int, kind.shape)), kind.dtype) for kind in types)
    return {variable.name_hint: array for variable, array in zip(inputs, arrays)}


def _timer(module: Any, device: tvm.runtime.Device) -> Callable[[], float]:
    evaluate = module.module.time_evaluator("run", device, number=1, repeat=1, min_repeat_ms=MIN_REPEAT_MS)
    return lambda: float(evaluate().mean)


def _run(module: Any, inputs: dict[str, Array]) -> list[Array]:
    module.run(**inputs)
    return [module.get_output(i).numpy() for i in range(module.get_num_outputs())]


@contextmanager
def _silent() -> Iterator[None]:
    """Suppress the warning that a network is not tuned."""
    before, autotvm.GLOBAL_SCOPE.silent = autotvm.GLOBAL_SCOPE.silent, True
    try:
        yield
    finally:
        autotvm.GLOBAL_SCOPE.silent = before


@contextmanager
def _device(target: tvm.target.Target, runner: Runner) -> Iterator[tuple[tvm.runtime.Device, Callable[[Any], Any]]]:
    """A device of the runner's tracker, or of this machine, and a function that loads a library there."""
    if not is_remote(runner):
        yield tvm.device(target.kind.name, 0), lambda library: library
        return

    def request() -> Any:
        return request_remote(runner.key, runner.host, runner.port, timeout=_SESSION_TIMEOUT)

    remote = run_with_timeout(_REQUEST_TIMEOUT, request, f"a free device of key {runner.key!r}")
    with tempfile.TemporaryDirectory() as folder:
        names = count()

        def load(library: Any) -> Any:
            path = Path(folder) / f"network{next(names)}.tar"
            library.export_library(str(path))
            remote.upload(str(path))
            return remote.load_module(path.name)

        yield remote.device(target.kind.name, 0), load
