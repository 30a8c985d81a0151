"""The target of this machine."""

from __future__ import annotations

from typing import Any

from autotvm_opevo._utils.target_cpu import this_cpu

# Those that are there to compute; others may be a slow substitute on a machine without any.
_GPUS = ("cuda", "rocm", "metal")


def local_target(tvm: Any) -> Any:
    """A TVM's target for this machine's GPU if it has one, else for its CPU.

    Parameters
    ----------
    tvm : module
        The installed TVM, whichever it is.

    Returns
    -------
    str or tvm.target.Target
    """
    gpu = next((kind for kind in _GPUS if tvm.device(kind, 0).exist), None)
    if gpu:
        return tvm.target.Target.from_device(tvm.device(gpu, 0))
    cpu = this_cpu(getattr(tvm.target.codegen, "llvm_get_system_cpu", str)())
    return f"llvm -mcpu={cpu}" if cpu else "llvm"
