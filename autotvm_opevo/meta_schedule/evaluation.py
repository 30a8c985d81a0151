"""Relax networks, built with the best of a database or untuned, on this machine."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import tvm
import tvm_ffi
from tvm import relax

from autotvm_opevo.meta_schedule.lowering import build
from autotvm_opevo.meta_schedule.targets import device_type
from autotvm_opevo.tuning.comparison import Comparison, compare_with_untuned, run_compiler
from autotvm_opevo.tuning.programs import MIN_REPEAT_MS, Array, random_arrays


def evaluate_network(as_imported: tvm.IRModule, lowered: tvm.IRModule, target: tvm.target.Target, database: Any) -> Comparison:
    """Compare a network as imported and with the best schedules of a database, on this machine."""
    with network_loader(target, random_inputs(lowered)) as load:
        return compare_with_untuned(load(as_imported), load(lowered, database))


@contextmanager
def network_loader(target: tvm.target.Target, inputs: Sequence[Array]) -> Iterator[Callable[..., Callable[[], Instance]]]:
    """A function that builds a lowered network, untuned or with a database, and returns one that loads it."""
    device, names = tvm.device(device_type(target), 0), count()
    with tempfile.TemporaryDirectory() as folder:

        def load(mod: tvm.IRModule, database: Any = None) -> Callable[[], Instance]:
            file = str(Path(folder) / f"{next(names)}.so")
            run_compiler(lambda: build(mod, target, database).export_library(file))
            # Only a loaded one has weights of its own; they are freed with it, for which TVM's `load_module` has no option.
            return lambda: Instance(tvm_ffi.load_module(file, keep_module_alive=False), device, inputs)

        yield load


class Instance:
    """A built network on a device, with inputs in newly allocated memory; so are its weights if it was just loaded."""

    def __init__(self, executable: Any, device: tvm.runtime.Device, inputs: Sequence[Array]) -> None:
        self._machine = relax.VirtualMachine(executable, device)
        self._arguments = [tvm.runtime.tensor(array, device=device) for array in inputs]
        self._evaluate = self._machine.time_evaluator("main", device, number=1, min_repeat_ms=MIN_REPEAT_MS)

    def outputs(self) -> list[Array]:
        """Run it; returns its output tensors."""
        return list(_flatten(self._machine["main"](*self._arguments)))

    def seconds(self) -> float:
        """The latency of one run, timed for a moment."""
        return float(self._evaluate(*self._arguments).mean)


def _flatten(outputs: Any) -> Iterator[Array]:
    """The tensors of a network's outputs, which may be tuples of tuples."""
    if hasattr(outputs, "numpy"):
        yield outputs.numpy()
    else:
        for output in outputs:
            yield from _flatten(output)


def random_inputs(mod: tvm.IRModule) -> list[Array]:
    """Reproducible random inputs of a network, in the order of its parameters."""
    types = [variable.ty for variable in mod["main"].params]
    return random_arrays((tuple(map(int, kind.shape)), str(kind.dtype)) for kind in types)
