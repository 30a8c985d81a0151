"""Relay networks, built with the best of a log or untuned, on the device that runs the trials."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any
from unittest.mock import patch

import tvm
from tvm import autotvm, relay
from tvm.autotvm.measure.measure import Runner
from tvm.autotvm.measure.measure_methods import request_remote
from tvm.contrib import graph_executor

from autotvm_opevo._utils.text import last_line
from autotvm_opevo._utils.timeouts import run_compiler, run_with_timeout, say_if_long
from autotvm_opevo.autotvm.folding import nodes, operator_name
from autotvm_opevo.autotvm.log import Record
from autotvm_opevo.autotvm.runner import is_remote
from autotvm_opevo.tuning import programs
from autotvm_opevo.tuning.comparison import Comparison, compare_with_untuned
from autotvm_opevo.tuning.programs import (
    Array,
    Uploader,
    compare_outputs,
    may_crash,
    random_arrays,
    remote_session,
    run_alone,
)

logger = logging.getLogger(__name__)

# Seconds for which a remote device is reserved, so that networks can be run once.
_SESSION_TIMEOUT = 600
# The pass that converts layouts, and operators for which that is right: those of the networks that
# tests run. TVM 0.17 changes what a variance of channels computes, and cannot build a network with
# topk of channels, for example.
_CONVERSION = "AlterOpLayout"
_CONVERTED_RIGHT = {
    "",
    "add",
    "clip",
    "concatenate",
    "expand_dims",
    "multiply",
    "nn.avg_pool2d",
    "nn.batch_flatten",
    "nn.batch_norm",
    "nn.bias_add",
    "nn.conv2d",
    "nn.dense",
    "nn.dropout",
    "nn.global_avg_pool2d",
    "nn.lrn",
    "nn.max_pool2d",
    "nn.pad",
    "nn.relu",
    "nn.softmax",
    "reshape",
    "sigmoid",
    "squeeze",
    "transpose",
}


def evaluate_network(
    mod: tvm.IRModule, target: tvm.target.Target, best_file: Path, runner: Runner
) -> Comparison:
    """Compare a network, with its weights bound, untuned and built with a file's records, where
    AutoTVM's `runner` runs the trials.
    """
    libraries = build_networks(mod, target, [[], best_file], runner)
    with open_device(target, runner) as (device, upload):
        before, after = load_networks(libraries, mod, device, upload)
        return compare_with_untuned(before, after, computed_dtypes(mod))


def build_networks(
    mod: tvm.IRModule,
    target: tvm.target.Target,
    best: Sequence[PathLike[str] | Sequence[Record]],
    runner: Runner,
) -> list[Any]:
    """Build a network, with its weights bound, with each of several files or sequences of records,
    the first of which has none.

    Where TVM fails to convert its layouts, or that changes what it computes, it is built without,
    with a warning: the networks would all be wrong in the same way. A `RuntimeError` if running one
    would end this process.
    """
    inputs = random_inputs(mod)
    alone_first = not is_remote(runner) and may_crash(inputs.values(), computed_dtypes(mod))

    def build_all(*disabled: str) -> list[Any]:
        libraries = []
        for records in best:
            kind = "tuned" if records else "untuned"
            building = partial(build, mod, target, records, disabled)
            libraries.append(run_compiler(building, f"building the {kind} network"))
            if alone_first:
                _run_alone(kind, libraries[-1], target.kind.name, inputs)
        return libraries

    may_be_wrong = {operator_name(node) for node in nodes(mod["main"])} - _CONVERTED_RIGHT
    try:
        libraries = build_all()
    except (RuntimeError, ValueError) as error:
        if not may_be_wrong:
            raise
        wrong = last_line(str(error))
    else:
        wrong = _changed_outputs(mod, target, libraries[0], runner) if may_be_wrong else ""
    if wrong:
        libraries = build_all(_CONVERSION)
        logger.warning(
            "TVM's conversion of layouts is wrong for this network (%s), which is compared without "
            "it: deploy it with tvm.transform.PassContext(opt_level=3, disabled_pass=['%s'])",
            wrong,
            _CONVERSION,
        )
    return libraries


def _changed_outputs(
    mod: tvm.IRModule, target: tvm.target.Target, untuned: Any, runner: Runner
) -> str:
    """How the outputs of the untuned network are wrong; empty if they are not, or it cannot be
    built without the conversion of layouts.
    """
    try:
        as_imported = run_compiler(
            partial(build, mod, target, [], [_CONVERSION]), "building the network as imported"
        )
    except RuntimeError as error:
        logger.info("the conversion of layouts was not verified: %s", last_line(str(error)))
        return ""
    with open_device(target, runner) as (device, upload):
        loaders = load_networks([as_imported, untuned], mod, device, upload)
        expected, actual = run_with_timeout(
            _SESSION_TIMEOUT, lambda: [load().outputs() for load in loaders], "the networks"
        )
    difference, match = compare_outputs(expected, actual, computed_dtypes(mod))
    return "" if match else f"it changes the outputs, relative error {difference:.1e}"


def build(
    mod: tvm.IRModule,
    target: tvm.target.Target,
    best: PathLike[str] | Sequence[Record] = (),
    disabled: Sequence[str] = (),
) -> Any:
    """Build a network whose weights are bound with the best of a file of records, or of a sequence
    of them; untuned without. Without the passes that are `disabled`.
    """
    records = str(best) if isinstance(best, PathLike) else list(best)
    # The untuned one needs an empty context: without any, TVM downloads pre-tuned records.
    context = autotvm.apply_history_best(records)
    options = tvm.transform.PassContext(opt_level=3, disabled_pass=list(disabled))
    # or it would warn that a network is not tuned
    with context, options, patch.object(autotvm.GLOBAL_SCOPE, "silent", True):
        return relay.build(mod, target=target)


def load_networks(
    libraries: Iterable[Any], mod: tvm.IRModule, device: tvm.runtime.Device, upload: Uploader
) -> list[Callable[[], Instance]]:
    """Take built networks to an open device; returns a function for each that loads it there, with
    random inputs.
    """
    inputs = random_inputs(mod)

    def load(load_library: Callable[[], Any]) -> Instance:
        return Instance(load_library(), device, inputs)

    with say_if_long("taking the networks to the device"):
        return [partial(load, upload(library)) for library in libraries]


class Instance(programs.Instance):
    """See `tuning.programs.Instance`."""

    def __init__(self, library: Any, device: tvm.runtime.Device, inputs: dict[str, Array]) -> None:
        self._module = graph_executor.GraphModule(library["default"](device))
        for name, array in inputs.items():  # not as keywords: an input may be called "key"
            tensor = self._module.get_input(name)
            if tensor is not None:  # it is used
                tensor.copyfrom(array)
        super().__init__(self._module.module, "run", device, [])

    def outputs(self) -> list[Array]:
        """Run it; returns its output tensors."""
        self._module.run()
        return [self._module.get_output(i).numpy() for i in range(self._module.get_num_outputs())]


def _run_alone(kind: str, library: Any, device: str, inputs: dict[str, Array]) -> None:
    """See `run_alone`."""
    with tempfile.TemporaryDirectory() as folder:
        file = f"{folder}/network.so"
        try:
            library.export_library(file)
        except Exception:  # without a linker, for one
            return
        run_alone(kind, __package__, _run, file, device, inputs)


def _run(file: str, device: str, inputs: dict[str, Array]) -> None:
    """In a worker process, which may die of it."""
    Instance(tvm.runtime.load_module(file), tvm.device(device, 0), inputs).outputs()


def computed_dtypes(mod: tvm.IRModule) -> set[str]:
    """Of the tensors that the operators of a network compute."""
    return {
        field.dtype
        for node in nodes(relay.transform.InferType()(mod)["main"])
        if isinstance(node, relay.Call)
        for field in getattr(node.checked_type, "fields", [node.checked_type])
        if isinstance(field, relay.TensorType)
    }


def random_inputs(mod: tvm.IRModule) -> dict[str, Array]:
    """Reproducible random inputs of a network, with its weights bound, by name."""
    inputs = mod["main"].params
    arrays = random_arrays(variable.checked_type for variable in inputs)
    return {variable.name_hint: array for variable, array in zip(inputs, arrays)}


@contextmanager
def open_device(
    target: tvm.target.Target, runner: Runner, seconds: float = 0.0
) -> Iterator[tuple[tvm.runtime.Device, Uploader]]:
    """A device of the runner's tracker, or of this machine, and a function that takes libraries
    there.

    A remote device is reserved for `seconds` more than it takes to run some networks once.
    """
    if not is_remote(runner):
        yield tvm.device(target.kind.name, 0), lambda library: lambda: library
        return

    with remote_session(
        lambda lasting: request_remote(runner.key, runner.host, runner.port, timeout=lasting),
        runner.key,
        _SESSION_TIMEOUT + seconds,
    ) as (session, upload):
        yield session.device(target.kind.name, 0), upload
