"""The prior of searches on a CPU."""

import numpy as np
import pytest
import tvm
from cpu_targets import PRIOR_FILES
from sketches import WORKLOADS, decision_space
from tvm import relax
from tvm.s_tir import meta_schedule as ms

from autotvm_opevo.meta_schedule import as_target, lower_for_tuning
from autotvm_opevo.meta_schedule.prior import prior, prior_file
from autotvm_opevo.meta_schedule.space import DecisionSpace
from benchmarks import relax_prior

SHAPES = {"data": (1, 64, 40, 40), "kernel": (80, 64, 3, 3)}
ARM = "llvm -mtriple=aarch64-linux-gnu -mattr=+neon"


@pytest.mark.parametrize("cpu", ["core-avx2", "skylake-avx512"])
@pytest.mark.parametrize("workload", ["MM1", "BMM1", "C1", "C2", "softmax"])
def test_the_package_knows_workloads_like_these(workload, cpu):
    decisions = decision_space(workload, "llvm")
    sources = [
        source
        for one in prior(as_target(f"llvm -mcpu={cpu}"))
        if (source := decisions.translate(one))
    ]
    assert len(sources) >= 2
    for source in sources:
        assert len(source.results) >= 16
        assert max(source.results.values()) == 1.0
        assert all(0 <= fitness <= 1 for fitness in source.results.values())


def test_what_is_known_is_of_use_to_an_arm_cpu():
    task = ms.TuneContext(
        WORKLOADS["C1"](), target=as_target(ARM), space_generator="post-order-apply"
    )
    decisions = DecisionSpace(task.mod, task.generate_design_space(), [])
    assert any(decisions.translate(source) for source in prior(task.target))


@pytest.mark.parametrize(("target", "name"), PRIOR_FILES)
def test_what_is_known_depends_on_the_width_of_vectors(target, name):
    path = prior_file(as_target(target))
    assert path.name == name
    assert path.exists()


def test_nothing_is_known_of_a_gpu():
    assert not prior(tvm.target.Target("cuda"))


@pytest.mark.parametrize("cpu", ["core-avx2", "skylake-avx512"])
def test_the_package_knows_the_operators_of_winograds_algorithm(cpu):
    """Of a layer that it does not know: its results are of use to each of the three."""
    target = as_target(f"llvm -mcpu={cpu}")
    data, kernel = (
        relax.Var(name, relax.TensorType(shape, "float32")) for name, shape in SHAPES.items()
    )
    builder = relax.BlockBuilder()
    with builder.function("main", [data, kernel]):
        with builder.dataflow():
            y = builder.emit_output(relax.op.nn.relu(relax.op.nn.conv2d(data, kernel, padding=1)))
        builder.emit_func_output(y)
    weights = {"kernel": tvm.runtime.tensor(np.ones(SHAPES["kernel"], "float32"))}
    lowered = lower_for_tuning(builder.finalize(), weights, target)
    tasks = [
        one
        for one in ms.relax_integration.extract_tasks(lowered, target)
        if "winograd" in one.task_name
    ]
    assert len(tasks) == 3
    for task in tasks:
        context = ms.TuneContext(
            task.dispatched[0], target=target, space_generator="post-order-apply"
        )
        decisions = DecisionSpace(context.mod, context.generate_design_space(), [])
        assert sum(decisions.translate(one) is not None for one in prior(target)) >= 2


@pytest.mark.parametrize(
    ("kind", "tasks"),
    [("convolution", 1), ("matmul", 1), ("batch_matmul", 1), ("softmax", 1), ("winograd", 3)],
)
def test_the_prior_s_layers_are_so_many_tasks_each(kind, tasks):
    target = as_target("llvm -mcpu=core-avx2")
    found = ms.relax_integration.extract_tasks(
        lower_for_tuning(*relax_prior.layers(kind), target), target
    )
    assert len(found) == tasks * len(relax_prior.KINDS[kind][1])
