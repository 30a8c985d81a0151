"""A builder whose worker processes start faster."""

from __future__ import annotations

from typing import Any

from tvm.s_tir.meta_schedule.builder import LocalBuilder

from autotvm_opevo._utils.interrupts import no_interrupts_in_children


def build_schedule(mod: Any, target: Any, params: Any) -> Any:
    """Build the module of a schedule."""
    if target.kind.name == "llvm":
        from tvm.driver import build as tvm_build
        from tvm.s_tir.transform import RemoveWeightLayoutRewriteBlock

        return tvm_build(RemoveWeightLayoutRewriteBlock(skip_tensor_rewrite=True)(mod), target=target)
    from tvm.s_tir.meta_schedule.builder.local_builder import default_build

    return default_build(mod, target, params)


# Makes cloudpickle send the function by value: the workers need not import this package and its dependencies.
build_schedule.__module__ = "__main__"


def local_builder(max_workers: int | None = None, timeout_sec: float = 30.0) -> LocalBuilder:
    """TVM's `LocalBuilder`, whose workers do not import ``tvm.s_tir.tensor_intrin``.

    TVM starts new workers for every batch, and its own build function imports all tensor intrinsics first, which takes seconds.
    Code for a CPU needs no such import, since a schedule's body holds the intrinsics it uses. For other targets this calls
    TVM's function.

    Parameters
    ----------
    max_workers : int, optional
        Number of parallel builds; by default the number of cores.
    timeout_sec : float
        Seconds for one build.

    Examples
    --------
    >>> from tvm.s_tir import meta_schedule as ms
    >>> ms.tune_tir(mod, target, work_dir, max_trials_global=64, builder=local_builder())  # doctest: +SKIP
    """
    with no_interrupts_in_children():  # TVM starts one to check itself
        return LocalBuilder(max_workers=max_workers, timeout_sec=timeout_sec, f_build=build_schedule)
