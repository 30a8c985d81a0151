"""A Relax network before and after tuning: compiled twice, checked against each other, and timed in turn."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.s_tir import meta_schedule as ms

from autotvm_opevo.tuning.speedup import Array, Speedup, compared

# The networks are timed so many times, in turn and for at least so many milliseconds each time.
_TIMES, _AT_LEAST_MS = 9, 50


def compare(mod: tvm.IRModule, target: tvm.target.Target, database: Any) -> Speedup:
    """Build a lower_for_tuning network untuned and with the best of a database, and run both on this machine."""
    executables = [build(mod, target), build(mod, target, database)]
    (expected, outputs), (before, after) = time_interleaved(executables, random_inputs(mod), target)
    return compared(expected, outputs, before, after)


def lower_for_tuning(mod: tvm.IRModule, params: dict[str, tvm.runtime.Tensor] | None, target: tvm.target.Target) -> tvm.IRModule:
    """The network with its weights, lowered to the functions that are tuned: operators, fused as TVM fuses them.

    What was tuned is found in a database only if the network is lowered as it was then.

    Parameters
    ----------
    mod : tvm.IRModule
        As one of Relax's frontends gives it.
    params : dict, optional
        Its weights.
    target : tvm.target.Target
    """
    if params:
        mod = relax.transform.BindParams("main", params)(mod)
    with target:
        return relax.get_pipeline("zero")(mod)


def build(mod: tvm.IRModule, target: tvm.target.Target, database: Any = None) -> Any:
    """Compile a lower_for_tuning network with the best schedules of a database, or untuned."""
    # Not by TVM's compile_relax: it fuses once more first, and then does not find the records of what was tuned.
    with target, database or ms.database.MemoryDatabase(), tvm.transform.PassContext(opt_level=3):
        return tvm.compile(relax.transform.MetaScheduleApplyDatabase()(mod), target)


def time_interleaved(
    executables: Sequence[Any], inputs: Sequence[Array], target: tvm.target.Target
) -> tuple[list[list[Array]], list[list[float]]]:
    """Outputs of compiled networks on the same inputs, and their latencies in seconds, taken in turn: chance favours none."""
    device = tvm.device(target.kind.name if target.kind.name != "llvm" else "cpu", 0)
    machines = [relax.VirtualMachine(executable, device) for executable in executables]
    arguments = [tvm.runtime.tensor(array, device=device) for array in inputs]
    with unbound():
        outputs = [_arrays(machine["main"](*arguments)) for machine in machines]
        evaluators = [machine.time_evaluator("main", device, number=1, min_repeat_ms=_AT_LEAST_MS) for machine in machines]
        rounds = [[evaluate(*arguments).mean for evaluate in evaluators] for _ in range(_TIMES)]
    return outputs, [list(latencies) for latencies in zip(*rounds)]


@contextmanager
def unbound() -> Iterator[None]:
    """Give this thread back the cores that it had.

    TVM binds the thread that runs a parallel loop to one core. Builders and runners that are started later would inherit that.
    """
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    try:
        yield
    finally:
        if cores:
            os.sched_setaffinity(0, cores)


def random_inputs(mod: tvm.IRModule) -> list[Array]:
    """The same arbitrary inputs for both; integers, which may be indices, are 0 and 1."""
    rng = np.random.default_rng(0)
    arrays = []
    for variable in mod["main"].params:
        shape, dtype = tuple(map(int, variable.ty.shape)), str(variable.ty.dtype)
        drawn = rng.standard_normal(shape) if "float" in dtype else rng.integers(0, 2, shape)
        arrays.append(drawn.astype(dtype))
    return arrays


def _arrays(outputs: Any) -> list[Array]:
    return [output.numpy() for output in outputs] if not hasattr(outputs, "numpy") else [outputs.numpy()]
