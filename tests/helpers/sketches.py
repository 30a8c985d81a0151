"""MetaSchedule tasks and decision spaces of workloads, before any measurement."""

from functools import lru_cache

import tvm
from tvm.s_tir import meta_schedule as ms
from tvm.target import Target

from autotvm_opevo.meta_schedule.intrinsics import import_tensor_intrinsics
from autotvm_opevo.meta_schedule.space import DecisionSpace
from benchmarks.workloads import PAPER, cpu, others

import_tensor_intrinsics()
WORKLOADS = {**PAPER, **others()}
TARGETS = {"llvm": cpu(), "cuda": Target("nvidia/nvidia-h100")}
TASKS = [(workload, target) for target in TARGETS for workload in WORKLOADS]


@lru_cache(None)
def context(workload: str, target: str) -> ms.TuneContext:
    """Create a task, without needing its device."""
    return ms.TuneContext(
        WORKLOADS[workload](),
        target=TARGETS[target],
        space_generator="post-order-apply",
        search_strategy="evolutionary",
        task_name=workload,
    )


@lru_cache(None)
def decision_space(workload: str, target: str) -> DecisionSpace:
    """Create a task's decision space."""
    task = context(workload, target)
    return DecisionSpace(task.mod, task.generate_design_space(), task.space_generator.postprocs)


def run(mod: tvm.IRModule, *arrays):
    """Run a scheduled CPU workload, and return its last argument."""
    tensors = [tvm.runtime.tensor(array) for array in arrays]
    tvm.compile(mod, TARGETS["llvm"])["main"](*tensors)
    return tensors[-1].numpy()
