"""What the worker processes of `LocalBuilder` and `LocalRunner` do."""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Sequence
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm.s_tir.meta_schedule.builder.local_builder import default_export
from tvm.s_tir.meta_schedule.runner.config import EvaluatorConfig
from tvm.s_tir.meta_schedule.runner.utils import run_evaluator_common
from tvm.s_tir.transform import RemoveWeightLayoutRewriteBlock

# What the workers need.
WORKER_MODULE = "autotvm_opevo.meta_schedule"

# A tensor's kind, dtype and shape, as MetaSchedule has it in JSON.
TensorInfo = Sequence[Any]

# The dtypes of integers that may be indices, or divisors.
INDICES = ("int32", "int64", "uint32", "uint64")

# The tensors of all kernels that a worker has run, as long as the largest, by device, position and
# dtype.
_memory: dict[tuple[str, int, str], Any] = {}


def build_schedule(mod: tvm.IRModule, target: tvm.target.Target) -> Any:
    """Build a schedule, without importing TVM's tensor intrinsics: its body holds what it uses."""
    # TVM measures with weights that are packed already.
    packed = RemoveWeightLayoutRewriteBlock(skip_tensor_rewrite=True)(mod)
    with target:  # or CUDA's compiler would take the architecture of this machine's GPU
        return tvm.tirx.build(packed, target=target)


def build_artifact(
    mod: tvm.IRModule, target: tvm.target.Target, link: bool, folder: str
) -> tuple[str, float]:
    """Build a schedule as a shared library, or object files, in a new folder of `folder`; returns
    the file's name, and the seconds of the processor: a build may be paused, or share its core.
    """
    # of what TVM and its linker write in between, too, which a killed worker leaves behind
    tempfile.tempdir = os.environ["TMPDIR"] = folder
    os.environ["LC_ALL"] = "C"  # a linker says that the disk is full in words that are known
    before = os.times()
    library = build_schedule(mod, target)
    if link:
        file = os.path.join(tempfile.mkdtemp(), "schedule.so")
        library.export_library(file)
    else:
        file = str(default_export(library))
    return file, sum(os.times()[:4]) - sum(before[:4])  # with what it has started, such as a linker


def run_artifact(
    artifact: str, device_type: str, tensors: Sequence[TensorInfo], config: EvaluatorConfig
) -> list[float]:
    """Run what was built; returns latencies in seconds."""
    device = tvm.runtime.device(device_type, 0)
    if artifact.endswith(".so"):
        # or thousands of trials would stay in memory
        library = tvm_ffi.load_module(artifact, keep_module_alive=False)
    else:  # object files, which TVM links, and keeps
        library = tvm.runtime.load_module(artifact)
    latencies: list[float] = run_evaluator_common(
        library, device, config, [kept_tensors(device_type, device, tensors)]
    )
    return latencies


def kept_tensors(
    device_type: str, device: tvm.runtime.Device, tensors: Sequence[TensorInfo]
) -> list[Any]:
    """Tensors for a kernel, in memory that is the same for all kernels.

    Where memory lies makes kernels that wait for it up to twice as fast; and to fill it takes as
    long as to run them. The last tensor is a kernel's output, which is never another one's input;
    further outputs, which few kernels have, may be. Integers are 1 for each kernel: random indices
    would be anywhere, and a divisor could be 0. For them, a table of one row has room for two.
    """
    rows = 2 if any(dtype in INDICES for _, dtype, _ in tensors) else 1
    views = []
    for i, (_, dtype, shape) in enumerate(tensors):
        key = device_type, i if i < len(tensors) - 1 else -1, dtype
        size = rows * math.prod(shape)
        if key not in _memory or math.prod(_memory[key].shape) < size:
            _memory.pop(key, None)
            _memory[key] = tvm.runtime.empty((size,), dtype, device)
            tvm.get_global_func("tvm.contrib.random.random_fill_for_measure")(_memory[key])
        views.append(_memory[key]._create_view(tuple(shape), dtype))
        if dtype in INDICES:
            views[-1].copyfrom(np.ones(shape, dtype))
    return views
