"""Relax networks, built with the best of a database or untuned, on the device that runs the
trials.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import tvm
from tvm import relax

from autotvm_opevo._utils.timeouts import run_compiler
from autotvm_opevo.lowering.entry import entry_name
from autotvm_opevo.lowering.network import build
from autotvm_opevo.meta_schedule.device import Put, open_device
from autotvm_opevo.tuning.comparison import Comparison, compare_with_untuned
from autotvm_opevo.tuning.programs import MIN_REPEAT_MS, Array, random_arrays

# Builds a lowered network, untuned or with a database; what it returns loads it.
Load = Callable[..., Callable[[], "Instance"]]


def evaluate_network(
    as_imported: tvm.IRModule,
    lowered: tvm.IRModule,
    target: tvm.target.Target,
    database: Any,
    runner: Any = None,
    dtypes: Iterable[str] = (),
) -> Comparison:
    """Compare a network as imported and with the best schedules of a database, where `runner` runs
    the trials.

    `dtypes` are of what it computes.
    """
    with network_loader(target, random_inputs(lowered), runner) as load:
        return compare_with_untuned(load(as_imported), load(lowered, database), set(dtypes))


@contextmanager
def network_loader(
    target: tvm.target.Target, inputs: Sequence[Array], runner: Any = None
) -> Iterator[Load]:
    """A function that builds a lowered network, untuned or with a database, and returns one that
    loads it.
    """
    with open_device(target, runner) as (device, put):
        yield load_on(target, inputs, device, put)


def load_on(
    target: tvm.target.Target, inputs: Sequence[Array], device: tvm.runtime.Device, put: Put
) -> Load:
    """The same on a device that is open."""

    def load(mod: tvm.IRModule, database: Any = None) -> Callable[[], Instance]:
        what = "building the untuned network" if database is None else "building the tuned network"
        load_library = run_compiler(lambda: put(build(mod, target, database)), what)
        name = entry_name(mod)
        return lambda: Instance(load_library(), device, inputs, name)

    return load


class Instance:
    """A built network on a device, with inputs in newly allocated memory; so are its weights if it
    was just loaded.
    """

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
        self._evaluate = self._machine.time_evaluator(
            "invoke_stateful", device, number=1, min_repeat_ms=MIN_REPEAT_MS
        )

    def outputs(self) -> list[Array]:
        """Run it; returns its output tensors."""
        self._machine.invoke_stateful(self._name)
        return list(_flatten(self._machine.get_outputs(self._name)))

    def seconds(self) -> float:
        """The latency of one run, timed for a moment."""
        return float(self._evaluate(self._name).mean)


def _flatten(outputs: Any) -> Iterator[Array]:
    """The tensors and numbers of a network's outputs, which may be shapes, or tuples of tuples; of
    others nothing is compared.
    """
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
    found: set[str] = set()

    def visit(node: Any) -> None:
        if isinstance(node, relax.Call):
            fields = node.ty.fields if isinstance(node.ty, relax.TupleType) else [node.ty]
            found.update(
                str(field.dtype) for field in fields if isinstance(field, relax.TensorType)
            )

    for function in mod.functions.values():
        if isinstance(function, relax.Function):
            relax.analysis.post_order_visit(function, visit)
    return found


def random_inputs(mod: tvm.IRModule) -> list[Array]:
    """Reproducible random inputs of a network, in the order of its parameters; a `ValueError` if
    one is not a tensor.
    """
    variables = list(mod[entry_name(mod)].params)
    if others := [
        variable for variable in variables if not isinstance(variable.ty, relax.TensorType)
    ]:
        raise ValueError(
            f"its inputs must be tensors to have random values, {others[0].name} is {others[0].ty}"
        )
    return random_arrays(
        (tuple(map(int, variable.ty.shape)), str(variable.ty.dtype)) for variable in variables
    )
