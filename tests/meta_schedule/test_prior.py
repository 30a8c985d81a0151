"""The prior of searches on a CPU."""

import pytest
import tvm
from cpu_targets import PRIOR_FILES
from sketches import decision_space
from tvm.s_tir import meta_schedule as ms

from autotvm_opevo.meta_schedule import as_target, lower_for_tuning
from autotvm_opevo.meta_schedule.prior import prior, prior_file
from benchmarks import relax_prior


@pytest.mark.parametrize("cpu", ["core-avx2", "skylake-avx512"])
@pytest.mark.parametrize("workload", ["MM1", "BMM1", "C1", "C2", "softmax"])
def test_the_package_knows_workloads_like_these(workload, cpu):
    decisions = decision_space(workload, "llvm")
    sources = [source for one in prior(as_target(f"llvm -mcpu={cpu}")) if (source := decisions.translate(one))]
    assert len(sources) >= 2
    for source in sources:
        assert len(source.results) >= 16
        assert max(source.results.values()) == 1.0
        assert all(0 <= fitness <= 1 for fitness in source.results.values())


@pytest.mark.parametrize(("target", "name"), PRIOR_FILES)
def test_what_is_known_depends_on_the_width_of_vectors(target, name):
    path = prior_file(as_target(target))
    assert path.name == name
    assert path.exists()


@pytest.mark.parametrize("target", ["cuda", {"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mattr": ["+neon"]}])
def test_nothing_is_known_of_other_devices(target):
    assert not prior(tvm.target.Target(target))


@pytest.mark.parametrize("kind", ["matmul", "batch_matmul", "softmax"])
def test_the_prior_s_layers_are_one_task_each(kind):
    target = as_target("llvm -mcpu=core-avx2")
    mod, params = relax_prior.layers([kind])
    tasks = ms.relax_integration.extract_tasks(lower_for_tuning(mod, params, target), target)
    assert len(tasks) == len(relax_prior.KINDS[kind][1])
