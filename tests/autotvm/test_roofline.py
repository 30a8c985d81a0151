"""The limits of this machine's CPU, and what they say of tasks."""

import pytest
import tvm
from assembly import assert_stays_in_registers
from small_templates import matmul_task
from tvm import autotvm

from autotvm_opevo.autotvm import targets
from autotvm_opevo.autotvm.targets import measure_roofline, work
from autotvm_opevo.tuning.roofline import BLOCKS, Roofline, block_product


def dense(dtype="float32"):
    tensors = [tvm.te.placeholder(shape, dtype) for shape in ((2, 512), (64, 512))]
    return autotvm.task.create("dense_nopack.x86", args=(*tensors, None, dtype), target="llvm")


def test_the_work_of_a_task_is_its_operations_and_its_bytes():
    task = dense()
    assert task.flop == pytest.approx(2 * 2 * 512 * 64, rel=0.01)
    assert work(task) == (task.flop, 4 * (2 * 512 + 64 * 512))


def test_operations_of_other_types_do_not_count():
    assert work(dense("float16")) == (0, 2 * (2 * 512 + 64 * 512))


def test_winograds_algorithm_needs_fewer_operations_than_are_counted(monkeypatch):
    task = dense()
    monkeypatch.setattr(task, "name", "conv2d_nchw_winograd.arm_cpu")
    assert work(task)[0] == 0


def test_a_task_without_tensors_has_no_known_bytes():
    assert work(matmul_task())[1] == 0


def test_what_is_unknown_is_no_limit():
    assert Roofline().latency(*work(dense())) == 0
    assert measure_roofline("cuda") == Roofline()


@pytest.mark.parametrize(
    ("block", "cpu", "registers"),
    [(BLOCKS[0], "core-avx2", ("ymm", 10)), (BLOCKS[1], "skylake-avx512", ("zmm", 16))],
)
def test_the_block_of_the_matrix_product_stays_in_registers(block, cpu, registers):
    tensors = block_product(tvm.te, *block)
    kernel = tvm.build(
        targets._schedule(tensors[-1]), tensors, f"llvm -mtriple=x86_64-linux-gnu -mcpu={cpu}"
    )
    assert_stays_in_registers(kernel.get_source("asm"), *registers)
