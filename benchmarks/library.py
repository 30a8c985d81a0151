"""numpy's BLAS as an upper reference for matrix products on a CPU."""

from __future__ import annotations

from timeit import Timer

from tvm.autotvm.task import Task

from autotvm_opevo.tuning.programs import random_arrays

# Number of measurements.
_REPEAT = 5


def tflops(task: Task) -> float | None:
    """numpy's best TFLOPS for a task's matrix product, in float32, as in TVM, on all cores; None
    for other operators and devices.
    """
    # which operands are transposed
    default = "NN" if "matmul" in task.name else ""
    transposed = next((a for a in task.args if a in ("NN", "TN", "NT")), default)
    if task.target.kind.name != "llvm" or not transposed:
        return None
    with task.target:
        _, tensors = task.instantiate(task.config_space.get(0))
    arrays = random_arrays(tensors[:-1])
    x, y = (a.swapaxes(-1, -2) if t == "T" else a for a, t in zip(arrays, transposed))
    timer = Timer("x @ y", globals={"x": x, "y": y})
    times, _ = timer.autorange()  # which warms up, too
    return float(task.flop) * times / min(timer.repeat(_REPEAT, times)) / 1e12
