"""MetaSchedule tasks and decision spaces of workloads, before any measurement."""

from functools import lru_cache

import tvm
from tvm import te, topi
from tvm.s_tir import meta_schedule as ms
from tvm.target import Target

from autotvm_opevo.meta_schedule.intrinsics import import_tensor_intrinsics
from autotvm_opevo.meta_schedule.space import DecisionSpace
from benchmarks.workloads import PAPER, cpu, softmax

import_tensor_intrinsics()
_A = te.placeholder((64, 1000), name="A")
# The last ones have design spaces that differ in their decisions, or have none.
WORKLOADS = {
    **PAPER,
    "softmax": lambda: softmax((64, 1000)),
    "sum": lambda: te.create_prim_func([_A, topi.sum(_A)]),
    "relu": lambda: te.create_prim_func([_A, topi.nn.relu(_A)]),
}
TARGETS = {"llvm": cpu(), "cuda": Target("nvidia/nvidia-h100")}
TASKS = [(workload, target) for target in TARGETS for workload in WORKLOADS]
# TVM 0.27 builds these intrinsics; for VNNI's, its LLVM wants other types.
AVX512 = Target({"kind": "llvm", "mcpu": "skylake-avx512", "num-cores": 2})


def int8_matmul():
    x, w = te.placeholder((64, 64), "uint8", name="X"), te.placeholder((64, 64), "int8", name="W")
    k = te.reduce_axis((0, 64), name="k")
    z = te.compute(
        (64, 64),
        lambda i, j: te.sum(x[i, k].astype("int32") * w[j, k].astype("int32"), axis=k),
        name="Z",
    )
    return te.create_prim_func([x, w, z])


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


def decisions_of(mod, target: Target) -> DecisionSpace:
    """Create the decision space of a workload of one's own."""
    task = ms.TuneContext(mod, target=target, space_generator="post-order-apply", rand_state=1)
    return DecisionSpace(task.mod, task.generate_design_space(), task.space_generator.postprocs)


def first_candidate(decisions: DecisionSpace):
    """The simplest candidate of the first sketch."""
    return decisions.candidate(next(iter(next(decisions.seed_configurations()))))[0]


def run(mod: tvm.IRModule, *arrays):
    """Run a scheduled CPU workload, and return its last argument."""
    tensors = [tvm.runtime.tensor(array) for array in arrays]
    tvm.compile(mod, TARGETS["llvm"])["main"](*tensors)
    return tensors[-1].numpy()
