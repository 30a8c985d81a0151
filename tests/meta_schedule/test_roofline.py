"""The limits of this machine's CPU, and what they say of tasks."""

import pytest
import tvm
from assembly import assert_stays_in_registers
from relax_modules import network_with
from tvm import relax, te, topi

from autotvm_opevo.lowering.entry import bind_params
from autotvm_opevo.lowering.network import lower_as_imported
from autotvm_opevo.meta_schedule import as_target, targets
from autotvm_opevo.meta_schedule.targets import measure_roofline, work
from autotvm_opevo.networks import relax as workloads
from autotvm_opevo.tuning.roofline import BLOCKS, Roofline, block_product

CPU = as_target("llvm")


def task_of(mod):
    """The only operator of a network."""
    mod = lower_as_imported(mod, CPU)
    (function,) = (
        function for variable, function in mod.functions.items() if variable.name_hint != "main"
    )
    return type(mod)({"main": function})


def matmul(dtype="float32"):
    return task_of(bind_params(*workloads.operator("matmul", [(2, 512), (512, 64)], dtype)))


def test_the_work_of_a_task_is_its_operations_and_its_bytes():
    operations, size = 2 * 2 * 512 * 64, 4 * (2 * 512 + 512 * 64 + 2 * 64)
    assert work(matmul()) == (operations, size)


def test_operations_of_other_types_do_not_count():
    assert work(matmul("float16")) == (0, 2 * (2 * 512 + 512 * 64 + 2 * 64))


def test_of_a_table_only_what_is_read_counts():
    mod = network_with((10_000, 64), relax.TensorType((4,), "int32"))(
        lambda emit, table, rows: relax.op.take(table, rows, axis=0)
    )
    _, size = work(task_of(mod))
    assert size == 4 * (4 * 64 + 4 + 4 * 64)


def test_what_is_read_as_a_whole_counts_as_a_whole():
    x = te.placeholder((4, 1000), name="x")
    assert (
        work(tvm.IRModule({"main": te.create_prim_func([x, topi.sort(x)])}))[1] == 2 * 4 * 4 * 1000
    )


def test_a_tensor_of_which_an_unknown_part_is_read_counts_as_a_whole():
    x = te.placeholder((1, 4, 10, 10), name="x")
    padded = topi.nn.reflect_pad(x, (0, 0, 2, 2), (0, 0, 2, 2))
    mod = tvm.IRModule({"main": te.create_prim_func([x, padded])})
    assert work(mod)[1] == 4 * 4 * (10 * 10 + 14 * 14)


def test_this_machine_has_limits_and_those_of_other_targets_are_unknown():
    roofline = measure_roofline(CPU)
    assert 1e8 < roofline.flops < 1e14
    assert all(1e8 < speed < 1e13 for _, speed in roofline.bandwidths)
    assert roofline.threads >= 1
    assert measure_roofline(as_target("nvidia/geforce-rtx-3090")) == Roofline()


@pytest.mark.parametrize(
    ("block", "cpu", "registers"),
    [(BLOCKS[0], "core-avx2", ("ymm", 10)), (BLOCKS[1], "skylake-avx512", ("zmm", 16))],
)
def test_the_block_of_the_matrix_product_stays_in_registers(block, cpu, registers):
    tensors = block_product(te, *block)
    library = tvm.compile(
        targets._schedule(tensors), as_target(f"llvm -mtriple=x86_64-linux-gnu -mcpu={cpu}")
    )
    assert_stays_in_registers(library.mod.inspect_source("asm"), *registers)
