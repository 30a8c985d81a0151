"""Verify the paper's operators for a GPU: lower random configurations, check them against its
limits, and compile them.

python -m benchmarks.verify                          # needs nvcc but no GPU; two minutes
python -m benchmarks.verify -n 100 --operators C2
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import Counter

import numpy as np
import tvm
from tqdm import tqdm
from tvm.autotvm.measure.measure_methods import gpu_verify_pass
from tvm.autotvm.task import Task
from tvm.autotvm.task.space import ConfigEntity, InstantiationError

from benchmarks import operators

# The limits of an sm_90, as its device would report them.
LIMITS = {
    "max_shared_memory_per_block": 49152,
    "max_threads_per_block": 1024,
    "max_thread_x": 1024,
    "max_thread_y": 1024,
    "max_thread_z": 64,
}

# TOPI's dense double-buffers its loads even if no loop is left; AutoTVM counts that as a failed
# build.
_LOOPLESS = "Double buffer scope must be inside a loop"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description="Build random configurations of the operators, without a GPU."
    )
    parser.add_argument("--target", default="cuda -arch=sm_90")
    parser.add_argument("--operators", nargs="+", help="(default: all)")
    parser.add_argument(
        "-n", type=int, default=20, help="configurations per operator (default: 20)"
    )
    options = parser.parse_args(arguments)
    names = options.operators or operators.names(options.target)
    sys.exit(0 if verify(options.target, names, options.n) else 1)


def verify(target: str, names: list[str], n: int) -> bool:
    """Lower, check and build random configurations. True if at least one of each operator builds
    and none fails.
    """
    success = True
    for name in names:
        task = operators.task(name, target)
        size = math.prod(map(len, task.config_space.space_map.values()))
        rng = np.random.default_rng(0)
        outcomes = Counter(
            _build(task, int(rng.integers(size)))
            for _ in tqdm(range(n), desc=name, leave=False, disable=None)
        )
        counts = ", ".join(f"{count} {what}" for what, count in outcomes.most_common())
        print(f"{name}: of {n} random configurations {counts}", flush=True)
        success = success and outcomes["built"] > 0 and not outcomes["failed"]
    return success


def _build(task: Task, index: int) -> str:
    config = task.config_space.get(index)
    checks = (
        {"tir.add_lower_pass": [(2, gpu_verify_pass(**LIMITS))]}
        if task.target.kind.name == "cuda"
        else {}
    )
    try:
        with task.target, tvm.transform.PassContext(config=checks):
            schedule, tensors = task.instantiate(config)
            if not config.valid():
                return "rejected by the template"
            tvm.build(schedule, tensors)
    except InstantiationError as error:
        return (
            "too large for the device"
            if "invalid gpu kernel" in str(error)
            else "rejected by the template"
        )
    except tvm.TVMError as error:
        return (
            "rejected by TVM"
            if _LOOPLESS in str(error) and _has_no_outer_k_loop(task, config)
            else "failed"
        )
    return "built"


def _has_no_outer_k_loop(task: Task, config: ConfigEntity) -> bool:
    """Whether TOPI's dense has no loop left around its double buffers."""
    return bool(
        math.prod(config["tile_k"].size[1:]) == task.config_space.space_map["tile_k"].product
    )


if __name__ == "__main__":
    main()
