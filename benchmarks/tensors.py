"""Tensor expressions of the paper's operators, shared by the versions for AutoTVM and for
MetaSchedule.
"""

from __future__ import annotations

from typing import Any

from tvm import te


def batch_matmul(batch: int, n: int, k: int, m: int, transpose: str) -> tuple[Any, Any, Any]:
    """Z_bnm = sum over k of X_bnk Y_bkm; `transpose` states if X and Y are stored transposed, as in
    "NT".
    """
    x = te.placeholder((batch, k, n) if transpose[0] == "T" else (batch, n, k), name="X")
    y = te.placeholder((batch, m, k) if transpose[1] == "T" else (batch, k, m), name="Y")
    r = te.reduce_axis((0, k), name="k")

    def product(b: Any, i: Any, j: Any) -> Any:
        left = x[b, r, i] if transpose[0] == "T" else x[b, i, r]
        right = y[b, j, r] if transpose[1] == "T" else y[b, r, j]
        return te.sum(left * right, axis=r)

    return x, y, te.compute((batch, n, m), product, name="Z")
