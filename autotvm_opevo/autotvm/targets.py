"""Targets, for AutoTVM: that of this machine, what is given, and what this machine's CPU can do at
most.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import tvm
from tvm import autotvm, te
from tvm.autotvm.task import Task

from autotvm_opevo.tuning import roofline
from autotvm_opevo.tuning.roofline import REPEAT_MS, REPEATS, Roofline, Work
from autotvm_opevo.tuning.this_machine import ThisMachine, check_llvm_cpu


def _compile_kernel(target: tvm.target.Target) -> None:
    """See `ThisMachine`."""
    a = te.placeholder((32,), name="a")
    b = te.compute(a.shape, lambda i: a[i] + 1.0, name="b")
    schedule = te.create_schedule(b.op)
    schedule[b].bind(b.op.axis[0], te.thread_axis("threadIdx.x"))
    tvm.build(schedule, [a, b], target)


THIS_MACHINE = ThisMachine(tvm, _compile_kernel)
# That of its CPU, which a GPU does not take the place of.
local_cpu_target = THIS_MACHINE.cpu_target


def local_target() -> str | tvm.target.Target:
    """TVM's target for this machine's GPU if it has one, else for its CPU, with the features that
    its processor reports.

    Examples
    --------
    >>> str(local_target()).split()[0] in ("llvm", "cuda", "rocm", "metal")
    True
    """
    target = THIS_MACHINE.target()
    # as `cuda`, which TVM completes; with the device's limits, logs of one would not be the other's
    return target if isinstance(target, str) else tvm.target.Target(target.kind.name)


def as_target(target: Any) -> tvm.target.Target:
    """Convert to a target of TVM; a `ValueError` if it does not know it."""
    try:
        return tvm.target.Target(target)
    except (TypeError, ValueError, tvm.TVMError):
        raise ValueError(
            f"target must be a target of TVM, such as llvm or cuda; {target!r} given"
        ) from None


def check_device(target: tvm.target.Target, runner: Any, compiles_here: bool = True) -> None:
    """Raise `ValueError` for a CPU unknown to LLVM, or a local runner where this machine lacks the
    device or instructions; `RuntimeError` for a GPU for which TVM cannot compile here, as it has
    to.
    """
    if target.kind.name == "llvm":
        check_llvm_cpu(tvm, target)
    if isinstance(runner, autotvm.LocalRunner):
        THIS_MACHINE.check(target)
    if compiles_here:
        THIS_MACHINE.check_compiler(target)


def work(task: Task) -> Work:
    """What one run of a task has to do.

    Operations count for float32 only, whose peak is known, and not for Winograd's algorithm, which
    needs fewer.
    """
    tensors = [
        argument[1:3]
        for argument in task.args
        if isinstance(argument, tuple) and argument[:1] == ("TENSOR",)
    ]
    size = sum(math.prod(shape) * tvm.DataType(dtype).bits // 8 for shape, dtype in tensors)
    counted = (
        tensors and all(dtype == "float32" for _, dtype in tensors) and "winograd" not in task.name
    )
    return float(task.flop or 0) if counted else 0.0, float(size)


def measure_roofline(target: str | tvm.target.Target) -> Roofline:
    """What this machine's CPU can do at most, in as many threads as TVM runs kernels, with the
    instructions of a target; unlimited, which is unknown, for other devices.
    """
    if tvm.target.Target(target).kind.name != "llvm":
        return Roofline()
    ask = tvm.get_global_func("runtime.NumThreads", True)
    return roofline.measure(te, partial(_seconds, target), int(ask()) if ask else 1)


def _seconds(target: str | tvm.target.Target, tensors: list[te.Tensor]) -> float:
    """See `tuning.roofline.Seconds`."""
    device = tvm.cpu()
    with tvm.transform.PassContext(opt_level=3):
        module = tvm.build(_schedule(tensors[-1]), tensors, target)
    arrays = [
        tvm.nd.array(np.ones([int(extent) for extent in tensor.shape], tensor.dtype), device)
        for tensor in tensors
    ]
    run: Any = module.time_evaluator(
        module.entry_name, device, number=1, repeat=REPEATS, min_repeat_ms=REPEAT_MS
    )
    return float(min(run(*arrays).results))


def _schedule(output: te.Tensor) -> te.Schedule:
    schedule = te.create_schedule(output.op)
    local = schedule.cache_write(output, "local")
    first, *middle, last = schedule[output].op.axis
    schedule[output].parallel(first)
    schedule[local].compute_at(schedule[output], first)
    _, *local_middle, local_last = schedule[local].op.axis
    (k,) = schedule[local].op.reduce_axis
    schedule[local].reorder(k, *local_middle, local_last)
    for stage, others, vectors in (
        (schedule[output], middle, last),
        (schedule[local], local_middle, local_last),
    ):
        for axis in others:
            stage.unroll(axis)  # or LLVM leaves the block in memory
        stage.vectorize(vectors)
    return schedule
