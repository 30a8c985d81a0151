"""The target of this machine, for a command without ``--target``."""

from __future__ import annotations

import sys
from typing import Any

from autotvm_opevo._utils.target_cpu import this_cpu

# Those that are there to compute; others may be a slow substitute on a machine without any.
_GPUS = ("cuda", "rocm", "metal")


def local_target() -> Any:
    """TVM's target for this machine's GPU if it has one, else for its CPU; says which."""
    import tvm

    gpu = next((kind for kind in _GPUS if tvm.device(kind, 0).exist), None)
    if gpu:
        target = tvm.target.Target.from_device(tvm.device(gpu, 0))
    else:
        cpu = this_cpu(getattr(tvm.target.codegen, "llvm_get_system_cpu", str)())
        target = f"llvm -mcpu={cpu}" if cpu else "llvm"
    print(f"no --target given, this machine's is {target}", file=sys.stderr)
    return target
