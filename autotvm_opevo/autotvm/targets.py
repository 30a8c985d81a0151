"""Targets, for AutoTVM: that of this machine, and what is given."""

from __future__ import annotations

from functools import partial
from typing import Any

import tvm

from autotvm_opevo.autotvm.processes import WORKER_MODULE
from autotvm_opevo.autotvm.roofline import measure_flops
from autotvm_opevo.tuning import this_machine
from autotvm_opevo.tuning.workers import call_once

_first_kernel = partial(call_once, WORKER_MODULE, measure_flops)


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
    target: str | tvm.target.Target = this_machine.local_target(tvm, _first_kernel)
    return target


def local_cpu_target() -> str:
    """The target of this machine's CPU, which a GPU does not take the place of."""
    return this_machine.local_cpu_target(tvm, _first_kernel)


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


def check_local(target: tvm.target.Target) -> None:
    """Raise `ValueError` for a CPU's target whose code this machine cannot run, by its triple or
    its processor's features.
    """
    this_machine.check_triple(str(target.attrs.get("mtriple", "")))
    this_machine.check_cpu_features(tvm, target, _first_kernel)


def cannot_run(target: tvm.target.Target) -> ValueError:
    """The error for a target whose first kernel died here."""
    return this_machine.cannot_run(tvm, target, _first_kernel)
