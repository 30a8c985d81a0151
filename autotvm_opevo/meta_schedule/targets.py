"""Targets, completed with the attributes that MetaSchedule needs."""

from __future__ import annotations

import re
from typing import Any

import tvm
from tvm.s_tir.meta_schedule.utils import cpu_count
from tvm.target import Target
from tvm.target.codegen import llvm_get_cpu_archlist, llvm_version_major

from autotvm_opevo._utils import this_machine
from autotvm_opevo._utils.target_cpu import check_cpu
from autotvm_opevo._utils.text import last_line


def local_target() -> str | Target:
    """TVM's target for this machine's GPU if it has one, else for its CPU, with all of its vector instructions.

    `as_target` completes it.

    Returns
    -------
    str or tvm.target.Target

    Examples
    --------
    >>> as_target(local_target()).kind.name in ("llvm", "cuda", "rocm", "metal")
    True
    """
    target: str | Target = this_machine.local_target(tvm)
    return target


def as_target(target: str | dict[str, Any] | Target) -> Target:
    """Convert to a target that MetaSchedule can tune for.

    A CPU without ``num-cores``, which MetaSchedule needs, gets the number of this machine's cores. Options in a string, which TVM
    took before 0.20, are accepted: ``"llvm -mcpu=core-avx2"``.

    Parameters
    ----------
    target : str, dict or tvm.target.Target

    Returns
    -------
    tvm.target.Target

    Raises
    ------
    ValueError
        If TVM does not know the target, LLVM does not know the CPU, or a GPU lacks attributes that MetaSchedule needs.

    Examples
    --------
    >>> found = as_target("llvm -mcpu=core-avx2 -num-cores=4")
    >>> found.kind.name, found.attrs["mcpu"], found.attrs["num-cores"]
    ('llvm', 'core-avx2', 4)
    """
    try:
        found = target if isinstance(target, Target) else Target(_options(target) if isinstance(target, str) else target)
    except (RuntimeError, TypeError, ValueError) as error:
        raise ValueError(
            f"target must be a target of TVM, such as llvm or nvidia/nvidia-h100; {target!r} given: {last_line(str(error))}"
        ) from None
    if found.kind.name == "llvm" and "num-cores" not in found.attrs:
        found = Target({**dict(found.export()), "num-cores": cpu_count(logical=False)})
    if found.kind.name == "llvm":
        without = Target({name: value for name, value in dict(found.export()).items() if name != "mcpu"})
        check_cpu(str(found.attrs.get("mcpu", "")), [str(name) for name in llvm_get_cpu_archlist(without)], llvm_version_major())
    missing = [name for name in ("max_threads_per_block", "max_shared_memory_per_block") if name not in found.attrs]
    if "gpu" in found.keys and missing:
        raise ValueError(
            f"target must have the GPU's {' and '.join(missing)}, which {target!r} lacks: name the device, such as "
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
    return {"kind": kind, **{name: _value(name, value) for name, value in re.findall(r"\s-([\w-]+)[=\s](\S+)", options)}}


def _value(name: str, text: str) -> Any:
    if name in ("mattr", "keys"):
        return text.split(",")
    return int(text) if text.isdecimal() else text
