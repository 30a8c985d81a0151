"""The target of this machine, for AutoTVM."""

from __future__ import annotations

import tvm

from autotvm_opevo._utils import this_machine


def local_target() -> str | tvm.target.Target:
    """TVM's target for this machine's GPU if it has one, else for its CPU, with all of its vector instructions.

    Examples
    --------
    >>> str(local_target()).split()[0] in ("llvm", "cuda", "rocm", "metal")
    True
    """
    target: str | tvm.target.Target = this_machine.local_target(tvm)
    return target
