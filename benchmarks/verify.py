"""Are the paper's operators sound for a GPU? Random configurations are lowered, checked against its limits and compiled.

python -m benchmarks.verify                          # needs nvcc, and no GPU: two minutes
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

# What an sm_90 has, as a device would say it.
LIMITS = {
    "max_shared_memory_per_block": 49152,
    "max_threads_per_block": 1024,
    "max_thread_x": 1024,
    "max_thread_y": 1024,
    "max_thread_z": 64,
}

# TOPI's dense buffers twice what a loop loads, also where there is no loop: AutoTVM counts that as a failed build.
_LOOPLESS = "Double buffer scope must be inside a loop"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Build random configurations of the operators.")
    parser.add_argument("--target", default="cuda -arch=sm_90")
    parser.add_argument("--operators", nargs="+", help="(default: all of them)")
    parser.add_argument("-n", type=int, default=20, help="configurations of each (default: 20)")
    options = parser.parse_args(arguments)
    names = options.operators or operators.names(options.target)
    sys.exit(0 if verify(options.target, names, options.n) else 1)


def verify(target: str, names: list[str], n: int) -> bool:
    """Lower, check and build random configurations; no device is needed. True when some can be built, and none fails."""
    good = True
    for name in names:
        task = operators.task(name, target)
        size = math.prod(map(len, task.config_space.space_map.values()))
        rng = np.random.default_rng(0)
        outcomes = Counter(_build(task, int(rng.integers(size))) for _ in tqdm(range(n), desc=name, leave=False, disable=None))
        counts = ", ".join(f"{k} {what}" for what, k in outcomes.most_common())
        print(f"{name}: of {n} random configurations {counts}", flush=True)
        good = good and outcomes["built"] > 0 and not outcomes["failed"]
    return good


def _build(task: Task, number: int) -> str:
    config = task.config_space.get(number)
    checks = {"tir.add_lower_pass": [(2, gpu_verify_pass(**LIMITS))]} if task.target.kind.name == "cuda" else {}
    try:
        with task.target, tvm.transform.PassContext(config=checks):
            schedule, tensors = task.instantiate(config)
            if not config.valid():
                return "refused by the template"
            tvm.build(schedule, tensors)
    except InstantiationError as error:
        return "too large for the device" if "invalid gpu kernel" in str(error) else "refused by the template"
    except tvm.TVMError as error:
        return "refused by TVM" if _LOOPLESS in str(error) and _one_tile_sums_all(task, config) else "failed"
    return "built"


def _one_tile_sums_all(task: Task, config: ConfigEntity) -> bool:
    """Whether TOPI's dense has no loop left around what it buffers twice."""
    return bool(math.prod(config["tile_k"].size[1:]) == task.config_space.space_map["tile_k"].product)


if __name__ == "__main__":
    main()
