"""The target of this machine."""

from __future__ import annotations

import platform
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


def check_triple(triple: str) -> None:
    """Raise `ValueError` for a target triple whose code this machine cannot run; an empty one means this machine's.

    >>> check_triple("")
    """
    machine = platform.machine()
    families = {_family(triple.partition("-")[0]), _family(machine)}
    if triple and len(families) == 2 and "" not in families:
        raise ValueError(
            f"this machine, {machine}, cannot run code for {triple}: measure on another one, with an RPCRunner and a tracker "
            "(--rpc-tracker and --rpc-key on the command line)"
        )


def _family(architecture: str) -> str:
    """Architectures whose code may run on the same machine; empty for others than these."""
    name = architecture.lower()
    if name in ("x86_64", "amd64", "i386", "i486", "i586", "i686"):
        return "x86"
    return next((family for family in ("arm", "aarch64", "riscv") if name.startswith(family)), "").replace("aarch64", "arm")
