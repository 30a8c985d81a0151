"""The prior of searches on a CPU."""

import pytest
import tvm
from sketches import decision_space

from autotvm_opevo.meta_schedule.prior import prior


@pytest.mark.parametrize("workload", ["MM1", "C1", "C2", "softmax"])
def test_the_package_knows_workloads_like_these(workload):
    decisions = decision_space(workload, "llvm")
    sources = [source for one in prior(tvm.target.Target("llvm")) if (source := decisions.translate(one))]
    assert len(sources) >= 2
    for source in sources:
        assert len(source.results) >= 16
        assert max(source.results.values()) == 1.0
        assert all(0 <= fitness <= 1 for fitness in source.results.values())


def test_nothing_is_known_of_other_devices():
    assert not prior(tvm.target.Target("cuda"))
