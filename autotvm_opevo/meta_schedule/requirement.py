"""What the MetaSchedule adapter needs."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version

from autotvm_opevo._utils.imports import require

_WHAT_TO_DO = (
    "OpEvoStrategy needs the MetaSchedule of today's TVM, apache-tvm 0.27, and Python 3.10: pip install '.[tvm]' in a clone of "
    "autotvm_opevo (`make tune-relax` makes an environment with one). Without it autotvm_opevo.OpEvo works, on any space of "
    "your own."
)


def require_meta_schedule() -> str:
    """Which TVM has the ``tvm.s_tir.meta_schedule`` that can be imported; an `ImportError` that says what was found if none."""
    found = require("tvm.s_tir.meta_schedule", "MetaSchedule", _lacks, _WHAT_TO_DO)
    ffi = _version("apache-tvm-ffi")
    if ffi >= (0, 1, 15) and _version("apache-tvm")[:2] == (0, 27):
        given = ".".join(map(str, ffi))
        raise ImportError(f"found {found} with apache-tvm-ffi {given}, with which it crashes: 'apache-tvm-ffi<0.1.15' is needed")
    return found


def _lacks() -> str:
    try:
        import_module("tvm.autotvm")
    except Exception:
        return "which has no tvm.s_tir.meta_schedule"
    return "whose AutoTVM has OpEvoTuner (`from autotvm_opevo import OpEvoTuner`), but no tvm.s_tir.meta_schedule"


def _version(package: str) -> tuple[int, ...]:
    """Of what is installed, as far as it is numbers; nothing of what was built from source."""
    try:
        return tuple(int(part) for part in version(package).split(".")[:3] if part.isdecimal())
    except PackageNotFoundError:
        return ()
