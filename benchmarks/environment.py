"""The device and the software versions that a result depends on."""

from __future__ import annotations

import platform
import sys
from importlib import import_module

import tvm

from autotvm_opevo._utils.cpu_cores import thread_mismatch
from autotvm_opevo.tuning.this_machine import cpuinfo


def environment(target: str) -> dict[str, str]:
    """The name of a target's device, and the versions of Python, TVM and XGBoost. Warns if TVM
    would run kernels in another number of threads than there are cores.
    """
    kind = tvm.target.Target(target).kind.name
    threads = int(tvm.get_global_func("runtime.NumThreads")())
    if kind == "llvm" and (mismatch := thread_mismatch(threads)):
        print(f"warning: {mismatch}", file=sys.stderr)
    device = processor() if kind == "llvm" else tvm.device(kind, 0).device_name
    return {
        "device": device,
        "python": platform.python_version(),
        "tvm": tvm.__version__,
        "xgboost": _xgboost(),
    }


def processor() -> str:
    """The CPU's model name, or its architecture where the system does not tell the model."""
    return cpuinfo().get("model name", platform.machine())


def _xgboost() -> str:
    """The version that is imported: a folder before the environment's packages may have another."""
    try:
        return str(import_module("xgboost").__version__)
    except ImportError:
        return "?"
