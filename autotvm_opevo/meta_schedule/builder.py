"""A builder whose processes are ready sooner."""

from __future__ import annotations

from typing import Any

from tvm.s_tir.meta_schedule.builder import LocalBuilder


def _build(mod: Any, target: Any, params: Any) -> Any:
    if target.kind.name == "llvm":
        from tvm.driver import build as tvm_build
        from tvm.s_tir.transform import RemoveWeightLayoutRewriteBlock

        return tvm_build(RemoveWeightLayoutRewriteBlock(skip_tensor_rewrite=True)(mod), target=target)
    from tvm.s_tir.meta_schedule.builder.local_builder import default_build

    return default_build(mod, target, params)


# Not by its name: then it is sent to the processes as it is, and they need not import this package with all that it needs.
_build.__module__ = "__main__"


def local_builder(max_workers: int | None = None, timeout_sec: float = 30.0) -> LocalBuilder:
    """TVM's `LocalBuilder`, without the import of all tensor intrinsics in every one of its processes.

    TVM makes new processes for every batch, and its own build function has each import ``tvm.s_tir.tensor_intrin`` first, which
    takes long. Code for a CPU is built without: a schedule that uses intrinsics has them in its body already. For other
    targets this calls TVM's function.

    Parameters
    ----------
    max_workers : int, optional
        Processes at once; as many as there are cores unless given.
    timeout_sec : float
        Seconds until a build is given up.

    Examples
    --------
    >>> from tvm.s_tir import meta_schedule as ms
    >>> ms.tune_tir(mod, target, work_dir, max_trials_global=64, builder=local_builder())  # doctest: +SKIP
    """
    return LocalBuilder(max_workers=max_workers, timeout_sec=timeout_sec, f_build=_build)
