"""What the AutoTVM adapter needs."""

from __future__ import annotations

from autotvm_opevo._utils.imports import require

_WHAT_TO_DO = (
    "OpEvoTuner needs a TVM with AutoTVM, 0.8 to 0.19 (`make tune` in a clone of autotvm_opevo makes an environment with one). "
    "With today's TVM there is `from autotvm_opevo.meta_schedule import OpEvoStrategy`; without any, autotvm_opevo.OpEvo works, "
    "on any search space of your own."
)


def require_autotvm() -> str:
    """Which TVM has the ``tvm.autotvm`` that can be imported; an `ImportError` that says which TVM was found if none."""
    return require("tvm.autotvm", "AutoTVM", lambda: "which has no AutoTVM: it was removed in TVM 0.20", _WHAT_TO_DO)
