"""The yardstick of this machine's CPU: a kernel that stays the same, to notice when the machine becomes slower or faster."""

from __future__ import annotations

from functools import cache

import numpy as np
import tvm

from autotvm_opevo.autotvm.roofline import block_product

_REPEATS, _REPEAT_MS = 5, 3


def time_yardstick(target: str) -> float:
    """Median seconds of one run, in as many threads as TVM runs kernels."""
    module, arrays = _yardstick(target)
    run = module.time_evaluator(module.entry_name, tvm.cpu(), number=1, repeat=_REPEATS, min_repeat_ms=_REPEAT_MS)
    return float(np.median(run(*arrays).results))


def yardstick_name(target: tvm.target.Target) -> str:
    """What else determines how long it takes than the machine's speed."""
    return f"yardstick for {target} in {tvm.get_global_func('runtime.NumThreads')()} threads"


@cache
def _yardstick(target: str) -> tuple[tvm.runtime.Module, list[tvm.nd.NDArray]]:
    """Built once a process."""
    schedule, tensors, _ = block_product(rows=5, columns=16)
    with tvm.transform.PassContext(opt_level=3):
        module = tvm.build(schedule, tensors, target)
    return module, [tvm.nd.array(np.ones([int(extent) for extent in tensor.shape], tensor.dtype)) for tensor in tensors]
