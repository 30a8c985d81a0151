"""The limits of this machine's CPU, and what they say of tasks."""

from pathlib import Path

import pytest

from autotvm_opevo.meta_schedule import as_target, workloads
from autotvm_opevo.meta_schedule.lowering import lower_as_imported
from autotvm_opevo.meta_schedule.roofline import limit, measure_roofline
from autotvm_opevo.tuning.roofline import Roofline

CPU = as_target("llvm")


def matmul(dtype="float32"):
    mod = lower_as_imported(*workloads.operator("matmul", [(2, 512), (512, 64)], dtype), CPU)
    (function,) = (function for variable, function in mod.functions.items() if variable.name_hint != "main")
    return type(mod)({"main": function})


def test_a_task_takes_as_long_as_its_operations_or_its_bytes():
    operations, size = 2 * 2 * 512 * 64, 4 * (2 * 512 + 512 * 64 + 2 * 64)
    assert limit(matmul(), Roofline(flops=1e9)) == operations / 1e9
    assert limit(matmul(), Roofline(bandwidths=((1.0, 1e9),))) == size / 1e9
    assert limit(matmul(), Roofline()) == 0


def test_operations_of_other_types_have_no_known_limit():
    assert limit(matmul("float16"), Roofline(flops=1.0, bandwidths=((1.0, 1e9),))) == 2 * (2 * 512 + 512 * 64 + 2 * 64) / 1e9


def test_this_machine_has_limits():
    roofline = measure_roofline(CPU)
    assert 1e8 < roofline.flops < 1e14
    assert all(1e8 < speed < 1e13 for _, speed in roofline.bandwidths)
    assert roofline.threads >= 1


@pytest.mark.soak
def test_wide_vectors_are_faster():
    """Or the block of the matrix product is not in registers."""
    if "avx2" not in Path("/proc/cpuinfo").read_text():
        pytest.skip("this CPU has no wide vectors")
    assert measure_roofline(as_target("llvm -mcpu=core-avx2")).flops > 1.5 * measure_roofline(CPU).flops
