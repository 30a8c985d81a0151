"""Check that a TVM with MetaSchedule is installed."""

from __future__ import annotations

import os
import shutil
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from autotvm_opevo._utils.imports import require

_WHAT_TO_DO = (
    "OpEvoStrategy needs apache-tvm 0.27, which has MetaSchedule, and Python 3.10 or later: pip "
    "install '.[tvm]' in a clone of autotvm_opevo (`make setup-tvm` makes an environment with "
    "one). autotvm_opevo.OpEvo needs no TVM."
)


def require_meta_schedule() -> str:
    """Describe the installed TVM with MetaSchedule.

    Raises
    ------
    ImportError
        If there is none that can be imported; the message says what was found instead.
    """
    tvm = require("tvm.s_tir.meta_schedule", "MetaSchedule", _lacks, _WHAT_TO_DO)
    ffi = _version("apache-tvm-ffi")
    if ffi >= (0, 1, 15) and _version("apache-tvm")[:2] == (0, 27):
        given = ".".join(map(str, ffi))
        raise ImportError(
            f"found {tvm} with apache-tvm-ffi {given}, with which it crashes: pip install "
            "'apache-tvm-ffi<0.1.15'"
        )
    if not find_spec("psutil"):  # which TVM does not install by itself
        raise ImportError(f"found {tvm}, which cannot tune without psutil: pip install psutil")
    return tvm


def choose_cuda_compiler() -> None:
    """Let TVM compile for CUDA with nvcc, if there is one and its default, NVRTC, cannot be called.
    ``TVM_CUDA_COMPILE_MODE`` comes first.
    """
    cuda = find_spec("cuda")
    # not `find_spec("cuda.bindings")`, which would run a file cuda.py of the user's
    folders = (cuda and cuda.submodule_search_locations) or []
    if not PathFinder.find_spec("cuda.bindings", folders) and shutil.which("nvcc"):
        os.environ.setdefault("TVM_CUDA_COMPILE_MODE", "nvcc")


def _lacks() -> str:
    lacks = "no tvm.s_tir.meta_schedule"
    try:
        import_module("tvm.autotvm")
    except Exception:
        return f"which has {lacks}"
    return f"whose AutoTVM has OpEvoTuner (`from autotvm_opevo import OpEvoTuner`), but {lacks}"


def _version(package: str) -> tuple[int, ...]:
    """Numeric parts of an installed package's version; none for a build from source."""
    try:
        return tuple(int(part) for part in version(package).split(".")[:3] if part.isdecimal())
    except PackageNotFoundError:
        return ()
