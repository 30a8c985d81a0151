"""Targets, completed with the attributes that MetaSchedule needs."""

from __future__ import annotations

import re
from typing import Any

import tvm
from tvm.target import Target

from autotvm_opevo._utils.text import last_line
from autotvm_opevo.meta_schedule.roofline import kernel_threads, measure_flops
from autotvm_opevo.meta_schedule.worker import WORKER_MODULE
from autotvm_opevo.tuning.this_machine import ThisMachine, check_llvm_cpu
from autotvm_opevo.tuning.workers import call_once


def _measure_flops(target: str) -> float:
    """In a worker process, which may die of it."""
    return float(call_once(WORKER_MODULE, measure_flops, as_target(target)))


THIS_MACHINE = ThisMachine(tvm, _measure_flops)
# That of its CPU, which a GPU does not take the place of.
local_cpu_target = THIS_MACHINE.cpu_target


def local_target() -> str | Target:
    """TVM's target for this machine's GPU if it has one, else for its CPU: the fastest whose code
    has run here.

    `as_target` completes it. The first call on a machine compiles and runs two small kernels in a
    worker process, which takes some seconds.

    Returns
    -------
    str or tvm.target.Target

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

    Parameters
    ----------
    target : str, dict or tvm.target.Target

    Returns
    -------
    tvm.target.Target

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
        completed = (
            target
            if isinstance(target, Target)
            else Target(_options(target) if isinstance(target, str) else target)
        )
    except (RuntimeError, TypeError, ValueError) as error:
        raise ValueError(
            f"target must be a target of TVM, such as llvm or nvidia/nvidia-h100; {target!r} "
            f"given: {last_line(str(error))}"
        ) from None
    if completed.kind.name == "llvm":
        if "num-cores" not in completed.attrs:
            completed = Target({**dict(completed.export()), "num-cores": kernel_threads()})
        check_llvm_cpu(tvm, completed)
    missing = [
        name
        for name in ("max_threads_per_block", "max_shared_memory_per_block")
        if name not in completed.attrs
    ]
    if "gpu" in completed.keys and missing:
        raise ValueError(
            f"target must have the GPU's {' and '.join(missing)}, which {target!r} lacks: "
            "name the device, such as nvidia/nvidia-h100, or use this machine's with "
            "tvm.target.Target.from_device"
        )
    return completed


def device_type(target: Target) -> str:
    """TVM's name for the kind of device that a target runs on."""
    return "cpu" if target.kind.name == "llvm" else str(target.kind.name)


def _options(text: str) -> str | dict[str, Any]:
    """Parse ``"llvm -mcpu=x -num-cores 4"`` to a dict; return other strings unchanged."""
    match = re.fullmatch(r"(\S+)((?:\s+-[\w-]+[=\s]\S+)+)", text.strip())
    if not match:
        return text
    kind, options = match.groups()
    return {
        "kind": kind,
        **{
            name: _value(name, value)
            for name, value in re.findall(r"\s-([\w-]+)[=\s](\S+)", options)
        },
    }


def _value(name: str, text: str) -> Any:
    if name in ("mattr", "keys"):
        return text.split(",")
    return int(text) if text.isdecimal() else text
