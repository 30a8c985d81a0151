"""Targets, completed for MetaSchedule, and the roofline of this machine's CPU and of a task."""

from __future__ import annotations

import math
import re
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import tvm
from tvm import te
from tvm.s_tir import Schedule, ScheduleError
from tvm.s_tir.analysis import estimate_tir_flops
from tvm.s_tir.meta_schedule.arg_info import ArgInfo
from tvm.target import Target

from autotvm_opevo._utils.text import last_line
from autotvm_opevo.lowering.network import is_known
from autotvm_opevo.tuning import roofline
from autotvm_opevo.tuning.roofline import REPEAT_MS, REPEATS, Roofline, Work
from autotvm_opevo.tuning.this_machine import ThisMachine, check_llvm_cpu


def _compile_kernel(target: Target) -> None:
    """See `ThisMachine`."""
    a = te.placeholder((32,), name="a")
    b = te.compute(a.shape, lambda i: a[i] + 1.0, name="b")
    schedule = Schedule(te.create_prim_func([a, b]))
    (loop,) = schedule.get_loops(schedule.get_sblock("b"))
    schedule.bind(loop, "threadIdx.x")
    with target:  # for its architecture
        tvm.compile(schedule.mod, target)


THIS_MACHINE = ThisMachine(tvm, _compile_kernel)
# That of its CPU, which a GPU does not take the place of.
local_cpu_target = THIS_MACHINE.cpu_target


def local_target() -> str | Target:
    """TVM's target for this machine's GPU if it has one, else for its CPU, with the features that
    its processor reports.

    `as_target` completes it.

    Examples
    --------
    >>> as_target(local_target()).kind.name in ("llvm", "cuda", "rocm", "metal")
    True
    """
    target: str | Target = THIS_MACHINE.target()
    return target


def as_target(target: str | dict[str, Any] | Target) -> Target:
    """Convert to a target that MetaSchedule can tune for.

    A CPU without ``num-cores``, which MetaSchedule needs, gets the number of threads in which TVM
    runs kernels in this process. Options in a string, which TVM took before 0.20, are accepted:
    ``"llvm -mcpu=core-avx2"``.

    Raises
    ------
    ValueError
        If TVM does not know the target, LLVM does not know the CPU, or a GPU lacks attributes that
        MetaSchedule needs.

    Examples
    --------
    >>> target = as_target("llvm -mcpu=core-avx2 -num-cores=4")
    >>> target.kind.name, target.attrs["mcpu"], target.attrs["num-cores"]
    ('llvm', 'core-avx2', 4)
    """
    try:
        given = _options(target) if isinstance(target, str) else target
        completed = given if isinstance(given, Target) else Target(given)
    except (RuntimeError, TypeError, ValueError) as error:
        raise ValueError(
            f"target must be a target of TVM, such as llvm or nvidia/nvidia-h100; {target!r} "
            f"given: {last_line(str(error))}"
        ) from None
    if completed.kind.name == "llvm":
        if "num-cores" not in completed.attrs:
            completed = Target({**dict(completed.export()), "num-cores": kernel_threads()})
        check_llvm_cpu(tvm, completed)
    needed = "max_threads_per_block", "max_shared_memory_per_block"
    missing = [name for name in needed if name not in completed.attrs]
    if "gpu" in completed.keys and missing:
        device = tvm.device(completed.kind.name, 0)
        if isinstance(given, str) and given == completed.kind.name and device.exist:
            return as_target(Target.from_device(device))
        raise ValueError(
            f"target must have the GPU's {' and '.join(missing)}, which {target!r} lacks: "
            "name the device, such as nvidia/nvidia-h100, or give no target, or only "
            f"{completed.kind.name}, on its machine"
        )
    # as a database has it: exported, its text can have the options in another order
    return Target(completed.export())


def device_type(target: Target) -> str:
    """TVM's name for the kind of device that a target runs on."""
    return "cpu" if target.kind.name == "llvm" else str(target.kind.name)


def _options(text: str) -> str | dict[str, Any]:
    """Parse ``"llvm -mcpu=x -num-cores 4"`` to a dict; return other strings unchanged."""
    match = re.fullmatch(r"(\S+)((?:\s+-[\w-]+[=\s]\S+)+)", text.strip())
    if not match:
        return text
    options: dict[str, Any] = {"kind": match[1]}
    for name, value in re.findall(r"\s-([\w-]+)[=\s](\S+)", match[2]):
        number = int(value) if value.isdecimal() else value
        options[name] = value.split(",") if name in ("mattr", "keys") else number
    return options


def work(mod: tvm.IRModule) -> Work:
    """What one run of a task has to do. Operations count for float32 only, whose peak is known; of
    a tensor that is read here and there, such as a table of embeddings, no more elements than there
    are iterations."""
    iterations: Counter[Any] = Counter()  # that touch a tensor
    schedule = Schedule(mod)
    with suppress(ScheduleError):  # calls of functions that are not TVM's have no such block
        for block in map(schedule.get, schedule.get_child_blocks(schedule.get_sblock("root"))):
            extent = math.prod(int(variable.dom.extent) for variable in block.iter_vars)
            for region in (*block.reads, *block.writes):
                # An extent that is an expression, as of padding by reflection, may be all of it.
                extents = [interval.extent for interval in region.region]
                known = all(map(is_known, extents))
                elements = extent * math.prod(map(int, extents)) if known else sys.maxsize
                iterations[region.source] += elements
    tensors = ArgInfo.from_prim_func(mod["main"])
    touched = [iterations.get(parameter, sys.maxsize) for parameter in mod["main"].params]
    size = 0
    for tensor, n in zip(tensors, touched):
        elements = min(math.prod(map(int, tensor.shape)), n)
        size += elements * tvm.DataType(str(tensor.dtype)).bits // 8
    counted = all(str(tensor.dtype) == "float32" for tensor in tensors)
    return float(estimate_tir_flops(mod)) if counted else 0.0, float(size)


def measure_roofline(target: Target) -> Roofline:
    """What this machine's CPU can do at most, in TVM's number of threads, with a target's
    instructions; unlimited, which is unknown, for other devices.
    """
    if target.kind.name != "llvm":
        return Roofline()
    return roofline.measure(te, partial(_seconds, target), kernel_threads())


def kernel_threads() -> int:
    """Number of threads in which TVM runs kernels in this process.

    Asked in a thread that ends: TVM binds the one that asks to some of the cores, and with it all
    that it starts later, such as builders.
    """
    with ThreadPoolExecutor(1) as thread:
        return int(thread.submit(tvm.get_global_func("runtime.NumThreads")).result())


def _seconds(target: Target, tensors: list[te.Tensor]) -> float:
    """See `tuning.roofline.Seconds`."""
    shapes = [[int(extent) for extent in tensor.shape] for tensor in tensors]
    arrays = [tvm.runtime.tensor(np.ones(shape, "float32")) for shape in shapes]
    library: Any = tvm.compile(_schedule(tensors), target)
    run = library.mod.time_evaluator(
        "main", tvm.cpu(), number=1, repeat=REPEATS, min_repeat_ms=REPEAT_MS
    )
    return float(min(run(*arrays).results))


def _schedule(tensors: list[te.Tensor]) -> tvm.IRModule:
    schedule = Schedule(te.create_prim_func(tensors))
    block = schedule.get_sblock(tensors[-1].op.name)
    local = schedule.cache_write(block, 0, "local")
    first, *others, k = schedule.get_loops(block)
    schedule.reorder(first, k, *others)
    schedule.reverse_compute_at(local, first)
    for stage in (block, local):
        *middle, last = schedule.get_loops(stage)[-len(others) :]
        for loop in middle:
            schedule.unroll(loop)  # or LLVM leaves the block in memory
        schedule.vectorize(last)
    schedule.parallel(first)
    schedule.decompose_reduction(block, k)
    return schedule.mod
