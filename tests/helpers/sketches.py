"""Workloads, and their tasks as MetaSchedule has them before anything is measured."""

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
    """A task. None of it needs a device."""
    return ms.TuneContext(
        WORKLOADS[workload](),
        target=TARGETS[target],
        space_generator="post-order-apply",
        search_strategy="evolutionary",
        task_name=workload,
    )


@lru_cache(None)
def decision_space(workload: str, target: str) -> DecisionSpace:
    task = context(workload, target)
    return DecisionSpace(task.mod, task.generate_design_space(), task.space_generator.postprocs)


def run(mod: tvm.IRModule, *arrays):
    """What a scheduled CPU workload computes: its last argument."""
    tensors = [tvm.runtime.tensor(array) for array in arrays]
    tvm.compile(mod, TARGETS["llvm"])["main"](*tensors)
    return tensors[-1].numpy()
