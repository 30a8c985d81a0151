"""The vendor library's performance as an upper reference: cuBLAS and cuDNN through PyTorch, or
numpy's BLAS on a CPU.
"""

from __future__ import annotations

from collections.abc import Callable
from timeit import repeat, timeit
from typing import Any

import numpy as np
from tvm.autotvm.task import Task

# Total seconds of measurement, the number of measurements, and warm-up runs.
_SECONDS, _REPEAT, _WARM_UP = 0.5, 5, 3


def tflops(task: Task) -> float | None:
    """The library's best TFLOPS for a task's operator, or None if there is no such library.

    Everything is float32 without TF32, as in TVM; on a CPU all cores are used.
    """
    run = _on_gpu(task) if task.target.kind.name == "cuda" else _on_cpu(task)
    if run is None:
        return None
    run(_WARM_UP)
    times = max(1, round(_SECONDS / _REPEAT / timeit(lambda: run(1), number=1)))
    # synchronizing once: on a GPU a launch takes longer than a small operator
    best = min(repeat(lambda: run(times), number=1, repeat=_REPEAT)) / times
    return float(task.flop) / best / 1e12


def _arrays(task: Task) -> tuple[list[Any], str]:
    """Random inputs of a task, and which of a matrix product's are transposed (TOPI's dense: the
    second).
    """
    with task.target:
        _, tensors = task.instantiate(task.config_space.get(0))
    rng = np.random.default_rng(0)
    arrays = [
        rng.standard_normal([int(extent) for extent in tensor.shape], dtype="float32")
        for tensor in tensors[:-1]
    ]
    return arrays, "NT" if task.name.startswith("dense") else next(
        (a for a in task.args if a in ("NN", "TN", "NT")), "NN" if "matmul" in task.name else ""
    )


def _on_cpu(task: Task) -> Callable[[int], None] | None:
    (x, y), transposed = _arrays(task)
    if not transposed:
        return None
    x, y = (a.swapaxes(-1, -2) if t == "T" else a for a, t in zip((x, y), transposed))

    def run(times: int) -> None:
        for _ in range(times):
            x @ y

    return run


def _on_gpu(task: Task) -> Callable[[int], None] | None:
    try:
        import torch
    except ImportError:
        return None
    if not torch.cuda.is_available():
        return None
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    arrays, transposed = _arrays(task)
    x, y = (torch.from_numpy(array).cuda() for array in arrays)
    if transposed:
        x, y = (a.transpose(-1, -2) if t == "T" else a for a, t in zip((x, y), transposed))

    def run(times: int) -> None:
        for _ in range(times):
            if transposed:
                torch.matmul(x, y)
            else:
                torch.nn.functional.conv2d(
                    x, y, stride=list(task.args[2]), padding=list(task.args[3])[:2]
                )
        torch.cuda.synchronize()

    return run
