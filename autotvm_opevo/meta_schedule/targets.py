"""Targets as people write them, and with what MetaSchedule asks of them."""

from __future__ import annotations

import re
from typing import Any

from tvm.s_tir.meta_schedule.utils import cpu_count
from tvm.target import Target
from tvm.target.codegen import llvm_get_cpu_archlist, llvm_version_major

from autotvm_opevo._utils.target_cpu import check_cpu


def as_target(target: str | dict[str, Any] | Target) -> Target:
    """A target that can be tuned for.

    Without ``num-cores``, which MetaSchedule needs to know of a CPU, it is taken for one with this machine's cores. The options
    that TVM took in a string before 0.20, ``"llvm -mcpu=core-avx2"``, are understood.

    Parameters
    ----------
    target : str, dict or tvm.target.Target
        As TVM takes them.

    Raises
    ------
    ValueError
        If TVM knows no such target, LLVM no such CPU, or a GPU's lacks what MetaSchedule needs to know.

    Examples
    --------
    >>> found = as_target("llvm -mcpu=core-avx2 -num-cores=4")
    >>> found.kind.name, found.attrs["mcpu"], found.attrs["num-cores"]
    ('llvm', 'core-avx2', 4)
    """
    try:
        found = target if isinstance(target, Target) else Target(_options(target) if isinstance(target, str) else target)
    except (RuntimeError, TypeError, ValueError):
        raise ValueError(f"target must be a target of TVM, such as llvm or nvidia/nvidia-h100; {target!r} given") from None
    if found.kind.name == "llvm" and "num-cores" not in found.attrs:
        found = Target({**dict(found.export()), "num-cores": cpu_count(logical=False)})
    if found.kind.name == "llvm":
        without = Target({name: value for name, value in dict(found.export()).items() if name != "mcpu"})
        check_cpu(str(found.attrs.get("mcpu", "")), [str(name) for name in llvm_get_cpu_archlist(without)], llvm_version_major())
    missing = [name for name in ("max_threads_per_block", "max_shared_memory_per_block") if name not in found.attrs]
    if "gpu" in found.keys and missing:
        raise ValueError(
            f"target must say what the GPU has, {' and '.join(missing)}, which {target!r} does not: name the device, such as "
            "nvidia/nvidia-h100, or take the one that is here with tvm.target.Target.from_device"
        )
    return found


def _options(text: str) -> str | dict[str, Any]:
    """``"llvm -mcpu=x -num-cores 4"`` as a dict; other strings as they are."""
    found = re.fullmatch(r"(\S+)((?:\s+-[\w-]+[=\s]\S+)+)", text.strip())
    if not found:
        return text
    kind, options = found.groups()
    return {"kind": kind, **{name: _value(name, value) for name, value in re.findall(r"\s-([\w-]+)[=\s](\S+)", options)}}


def _value(name: str, text: str) -> Any:
    if name in ("mattr", "keys"):
        return text.split(",")
    return int(text) if text.isdecimal() else text
