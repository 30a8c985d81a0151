"""Targets, completed with the attributes that MetaSchedule needs."""

from __future__ import annotations

import re
from typing import Any

import tvm
from tvm.target import Target
from tvm.target.codegen import llvm_get_cpu_archlist, llvm_version_major

from autotvm_opevo._utils.target_cpu import check_cpu
from autotvm_opevo._utils.text import last_line
from autotvm_opevo.meta_schedule.roofline import kernel_threads, measure_flops
from autotvm_opevo.meta_schedule.worker import WORKER_MODULE
from autotvm_opevo.tuning import this_machine
from autotvm_opevo.tuning.workers import call_once


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
    target: str | Target = this_machine.local_target(tvm, _first_kernel)
    return target


def local_cpu_target() -> str:
    """The target of this machine's CPU, which a GPU does not take the place of."""
    return this_machine.local_cpu_target(tvm, _first_kernel)


def check_local(target: Target) -> None:
    """Raise `ValueError` for a CPU's target whose code this machine cannot run, by its triple or
    its processor's features.
    """
    this_machine.check_triple(str(target.attrs.get("mtriple", "")))
    this_machine.check_cpu_features(tvm, target, _first_kernel)


def cannot_run(target: Target) -> ValueError:
    """The error for a target whose first kernel died here."""
    return this_machine.cannot_run(tvm, target, _first_kernel)


def _first_kernel(target: str) -> float:
    """Operations per second of a matrix product, in a worker process."""
    return float(call_once(WORKER_MODULE, measure_flops, as_target(target)))


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
    >>> found = as_target("llvm -mcpu=core-avx2 -num-cores=4")
    >>> found.kind.name, found.attrs["mcpu"], found.attrs["num-cores"]
    ('llvm', 'core-avx2', 4)
    """
    try:
        found = (
            target
            if isinstance(target, Target)
            else Target(_options(target) if isinstance(target, str) else target)
        )
    except (RuntimeError, TypeError, ValueError) as error:
        raise ValueError(
            f"target must be a target of TVM, such as llvm or nvidia/nvidia-h100; {target!r} "
            f"given: {last_line(str(error))}"
        ) from None
    if found.kind.name == "llvm" and "num-cores" not in found.attrs:
        found = Target({**dict(found.export()), "num-cores": kernel_threads()})
    if found.kind.name == "llvm":
        without = Target(
            {name: value for name, value in dict(found.export()).items() if name != "mcpu"}
        )
        check_cpu(
            str(found.attrs.get("mcpu", "")),
            [str(name) for name in llvm_get_cpu_archlist(without)],
            llvm_version_major(),
        )
    missing = [
        name
        for name in ("max_threads_per_block", "max_shared_memory_per_block")
        if name not in found.attrs
    ]
    if "gpu" in found.keys and missing:
        raise ValueError(
            f"target must have the GPU's {' and '.join(missing)}, which {target!r} lacks: "
            "name the device, such as "
            "nvidia/nvidia-h100, or use this machine's with tvm.target.Target.from_device"
        )
    return found


def device_type(target: Target) -> str:
    """TVM's name for the kind of device that a target runs on."""
    return "cpu" if target.kind.name == "llvm" else str(target.kind.name)


def _options(text: str) -> str | dict[str, Any]:
    """Parse ``"llvm -mcpu=x -num-cores 4"`` to a dict; return other strings unchanged."""
    found = re.fullmatch(r"(\S+)((?:\s+-[\w-]+[=\s]\S+)+)", text.strip())
    if not found:
        return text
    kind, options = found.groups()
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
