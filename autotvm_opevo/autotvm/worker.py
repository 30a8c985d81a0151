"""What the worker processes of `LocalRunner` do: load a kernel, and time it as often as is worth
it, in tensors that stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any, NamedTuple

import numpy as np
import tvm

# What the workers need.
WORKER_MODULE = "autotvm_opevo.autotvm"

# Duration of a short run in milliseconds, long enough for the clock, and their number.
_SHORT_MS, _SHORT_REPEATS = 1, 2


class Thresholds(NamedTuple):
    """Seconds that decide how often a trial is measured.

    Two short runs if both are above `prune_above`; one measurement unless it is at most
    `repeat_below`; twice as many if it is below `recheck_below`.
    """

    prune_above: float = inf
    repeat_below: float = inf
    recheck_below: float = 0.0


NO_THRESHOLDS = Thresholds()

_tensors: dict[Any, list[tvm.nd.NDArray]] = {}  # of the last trial


def gpu_limits(kind: str) -> dict[str, int]:
    """Limits of this machine's GPU that AutoTVM's builder checks kernels against."""
    device = tvm.device(kind, 0)
    if not device.exist:
        raise RuntimeError(f"this machine has no {kind} device, or TVM cannot find its driver")
    x, y, z = device.max_thread_dimensions
    return {
        "max_shared_memory_per_block": device.max_shared_memory_per_block,
        "max_threads_per_block": device.max_threads_per_block,
        "max_thread_x": x,
        "max_thread_y": y,
        "max_thread_z": z,
    }


def measure(
    kind: str,
    file: str,
    tensors: Sequence[Any],
    evaluation: tuple[int, int, float, str],
    thresholds: Thresholds,
) -> tuple[float, ...]:
    """Seconds of one run, repeatedly, as often as the thresholds say."""
    number, repeat, min_repeat_ms, preproc = evaluation
    device = tvm.device(kind, 0)
    module = tvm.runtime.load_module(file)
    arguments = _arguments(tensors, device)

    def run(number: int, repeat: int, min_repeat_ms: float) -> list[float]:
        timer = module.time_evaluator(
            module.entry_name,
            device,
            number=number,
            repeat=repeat,
            min_repeat_ms=int(min_repeat_ms),
            f_preproc=preproc,
        )
        return list(timer(*arguments).results)

    if thresholds.prune_above < inf:
        short = run(1, _SHORT_REPEATS, 0 if preproc else _SHORT_MS)
        if min(short) > thresholds.prune_above:
            return tuple(short)
    costs = run(number, 1, min_repeat_ms)
    if costs[0] <= thresholds.repeat_below and repeat > 1:
        costs += run(number, repeat - 1, min_repeat_ms)
    if costs[0] < thresholds.recheck_below:
        costs += run(number, repeat, min_repeat_ms)
    # without the extremes, as AutoTVM
    return tuple(sorted(costs)[1:-1]) if len(costs) > 2 else tuple(costs)


def _arguments(tensors: Sequence[Any], device: tvm.runtime.Device) -> list[tvm.nd.NDArray]:
    """Tensors on the device; those of the last trial if they have the same shapes."""
    if tensors and isinstance(tensors[0], np.ndarray):  # given by the user
        return [tvm.nd.array(tensor, device) for tensor in tensors]
    key = tuple(tensors)
    if key not in _tensors:
        _tensors.clear()
        _tensors[key] = [_random(shape, dtype, fill, device) for shape, dtype, fill in tensors]
    return _tensors[key]


def _random(
    shape: tuple[int, ...], dtype: str, fill: bool, device: tvm.runtime.Device
) -> tvm.nd.NDArray:
    """A tensor with random elements between 1 and 10; large ones repeat a few, since filling would
    take longer than a run.
    """
    tensor = tvm.nd.empty(shape, dtype, device)
    if fill:
        sample = np.random.default_rng(0).uniform(1, 10, 1 << 16)
        try:
            tensor.copyfrom(np.resize(sample.astype(dtype), shape))
        except (TypeError, ValueError):  # numpy does not know all of TVM's types
            tvm.get_global_func("tvm.contrib.random.random_fill")(tensor)
    return tensor
