"""The TVM that the AutoTVM adapter requires."""

from __future__ import annotations

from autotvm_opevo._utils.imports import require

_WHAT_TO_DO = (
    "OpEvoTuner needs a TVM with AutoTVM, 0.8 to 0.19 (`make setup` in a clone of autotvm_opevo "
    "creates an environment with one). For newer versions, use `from autotvm_opevo.meta_schedule "
    "import OpEvoStrategy`. autotvm_opevo.OpEvo searches any space and works without TVM."
)


def require_autotvm() -> str:
    """Import ``tvm.autotvm``; returns the version and location of TVM, or raises an `ImportError`
    with what was found instead.
    """
    return require(
        "tvm.autotvm",
        "AutoTVM",
        lambda: "which has no AutoTVM: it was removed in TVM 0.20",
        _WHAT_TO_DO,
    )
