"""Relax networks, built with the best of a database or untuned, on the device that runs the
trials.
"""

from __future__ import annotations

import gc
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import relax
from tvm.s_tir.meta_schedule.runner import RPCRunner

from autotvm_opevo._utils.timeouts import run_compiler, say_if_long
from autotvm_opevo.lowering.entry import entry_name
from autotvm_opevo.lowering.network import build, lower_as_imported
from autotvm_opevo.lowering.rewriting import calls_in
from autotvm_opevo.meta_schedule.targets import device_type
from autotvm_opevo.meta_schedule.worker import WORKER_MODULE
from autotvm_opevo.tuning import programs
from autotvm_opevo.tuning.comparison import Comparison, compare_with_untuned
from autotvm_opevo.tuning.programs import (
    Array,
    Uploader,
    may_crash,
    random_arrays,
    remote_session,
    run_alone,
)

# Seconds for which a remote device is reserved, so that networks can be built and run once.
_SESSION_TIMEOUT = 3600


@contextmanager
def open_device(
    target: tvm.target.Target, runner: Any = None, seconds: float = 0.0
) -> Iterator[tuple[tvm.runtime.Device, Uploader]]:
    """The device that runs the trials, and a function that takes libraries there: of the tracker of
    an ``RPCRunner``, this machine's with any other.

    A remote device is reserved for `seconds` more than it takes to run some networks once; a
    `TimeoutError` if none is free for minutes.
    """
    if not isinstance(runner, RPCRunner):
        names = count()
        # what is still loaded cannot be removed on NFS
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:

            def load_anew(library: Any) -> Callable[[], Any]:
                file = str(Path(folder) / f"{next(names)}.so")
                library.export_library(file)
                # Only a loaded one has weights of its own; they are freed with it, for which TVM's
                # `load_module` has no option.
                return partial(tvm_ffi.load_module, file, keep_module_alive=False)

            yield tvm.device(device_type(target), 0), load_anew
        return
    config, key = runner.rpc_config, runner.rpc_config.tracker_key

    def request(lasting: int) -> Any:
        options = {"session_timeout": lasting}
        return config.connect_tracker().request(key, config.session_priority, **options)

    with remote_session(request, key, _SESSION_TIMEOUT + seconds) as (session, upload):
        yield session.device(device_type(target), 0), upload


def evaluate_network(
    mod: tvm.IRModule, lowered: tvm.IRModule, target: tvm.target.Target, database: Any, runner: Any
) -> Comparison:
    """Compare a network as imported, and lowered with the best of a database, where `runner` runs
    trials.
    """
    as_imported = run_compiler(partial(lower_as_imported, mod, target), "lowering the network")
    inputs, dtypes = random_inputs(lowered), computed_dtypes(mod)
    with open_device(target, runner) as (device, upload):
        alone = not isinstance(runner, RPCRunner) and may_crash(inputs, dtypes)
        load = network_loader(target, inputs, device, upload, alone)
        return compare_with_untuned(load(as_imported), load(lowered, database), dtypes)


def network_loader(
    target: tvm.target.Target,
    inputs: Sequence[Array],
    device: tvm.runtime.Device,
    upload: Uploader,
    alone_first: bool = False,
) -> Callable[..., Callable[[], Instance]]:
    """A function that builds a lowered network; the one that it returns loads it on a device.

    With `alone_first`, it runs once in a process of its own on this machine; a `RuntimeError` if
    that dies of it.
    """

    def load(mod: tvm.IRModule, database: Any = None) -> Callable[[], Instance]:
        kind = "untuned" if database is None else "tuned"
        what = f"building the {kind} network"
        executable = run_compiler(partial(build, mod, target, database), what)
        with say_if_long("taking the network to the device"):
            load_library = upload(executable)
        name = entry_name(mod)
        if alone_first:
            run_alone(kind, WORKER_MODULE, _run, load_library, device_type(target), inputs, name)
        return lambda: Instance(load_library(), device, inputs, name)

    return load


class Instance(programs.Instance):
    """See `tuning.programs.Instance`."""

    def __init__(
        self,
        executable: Any,
        device: tvm.runtime.Device,
        inputs: Sequence[Array],
        name: str = "main",
    ) -> None:
        self._machine, self._name = relax.VirtualMachine(executable, device), name
        # The only way to get outputs that are tuples from a remote device.
        self._machine.set_input(
            name, *[tvm.runtime.tensor(array, device=device) for array in inputs]
        )
        super().__init__(self._machine, "invoke_stateful", device, [name])

    def outputs(self) -> list[Array]:
        """Run it; returns its output tensors."""
        self._machine.invoke_stateful(self._name)
        outputs = list(_flatten(self._machine.get_outputs(self._name)))
        # TVM's function refers to itself and to the machine, with which a GPU's kernels would be
        # freed at any time: also while the same library, loaded anew, refers to them.
        gc.collect()
        return outputs


def _run(load: Callable[[], Any], kind: str, inputs: Sequence[Array], name: str) -> None:
    """In a worker process, which may die of it."""
    Instance(load(), tvm.device(kind, 0), inputs, name).outputs()


def _flatten(outputs: Any) -> Iterator[Array]:
    """The tensors and numbers of a network's outputs, which may be shapes, or tuples of tuples."""
    if hasattr(outputs, "numpy"):
        yield outputs.numpy()
    elif isinstance(outputs, (bool, int, float)):
        yield np.asarray(outputs)
    elif isinstance(outputs, Sequence) and not isinstance(outputs, str):
        for output in outputs:
            yield from _flatten(output)


def computed_dtypes(mod: tvm.IRModule) -> set[str]:
    """Of the tensors that the operators of a network compute, before it is lowered.

    >>> from autotvm_opevo.networks.relax import mlp
    >>> computed_dtypes(mlp()[0])
    {'float32'}
    """
    types = [call.ty for call in calls_in(mod)]
    types += [field for kind in types if isinstance(kind, relax.TupleType) for field in kind.fields]
    return {str(kind.dtype) for kind in types if isinstance(kind, relax.TensorType)}


def random_inputs(mod: tvm.IRModule) -> list[Array]:
    """Reproducible random inputs of a network; a `ValueError` if one is not a tensor."""
    variables = list(mod[entry_name(mod)].params)
    for variable in variables:
        if not isinstance(variable.ty, relax.TensorType):
            given = f"{variable.name} is {variable.ty}"
            raise ValueError(f"its inputs must be tensors to have random values, {given}")
    return random_arrays(variable.ty for variable in variables)
