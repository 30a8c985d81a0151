"""Targets, for AutoTVM: that of this machine, and what is given."""

from __future__ import annotations

from functools import partial
from typing import Any

import tvm
from tvm import autotvm

from autotvm_opevo.autotvm.roofline import measure_flops
from autotvm_opevo.tuning.this_machine import ThisMachine, check_llvm_cpu
from autotvm_opevo.tuning.workers import call_once

# Targets whose device this machine may lack.
_DEVICE_TARGETS = ("cuda", "metal", "opencl", "rocm", "vulkan")

THIS_MACHINE = ThisMachine(tvm, partial(call_once, __package__, measure_flops))
# That of its CPU, which a GPU does not take the place of.
local_cpu_target = THIS_MACHINE.cpu_target


def local_target() -> str | tvm.target.Target:
    """TVM's target for this machine's GPU if it has one, else for its CPU: the fastest whose code
    has run here.

    The first call on a machine compiles and runs two small kernels in a worker process, which takes
    some seconds.

    Examples
    --------
    >>> str(local_target()).split()[0] in ("llvm", "cuda", "rocm", "metal")
    True
    """
    target: str | tvm.target.Target = THIS_MACHINE.target()
    return target


def as_target(target: Any) -> tvm.target.Target:
    """Convert to a target of TVM.

    Raises
    ------
    ValueError
        If TVM does not know it.
    """
    try:
        return tvm.target.Target(target)
    except (TypeError, ValueError, tvm.TVMError):
        raise ValueError(
            f"target must be a target of TVM, such as llvm or cuda; {target!r} given"
        ) from None


def check_device(target: tvm.target.Target, runner: Any) -> None:
    """Raise `ValueError` for a CPU unknown to LLVM, or a local runner where this machine lacks the
    device or instructions.
    """
    kind, is_local = target.kind.name, isinstance(runner, autotvm.LocalRunner)
    if kind == "llvm":
        check_llvm_cpu(tvm, target)
        if is_local:
            THIS_MACHINE.check(target)
    elif is_local and kind in _DEVICE_TARGETS and not tvm.device(kind, 0).exist:
        raise ValueError(
            f"this machine has no {kind} device, or TVM cannot find its driver: measure on "
            "another machine with an RPCRunner and a tracker (--rpc-tracker and --rpc-key on the "
            "command line), or tune for llvm"
        )
