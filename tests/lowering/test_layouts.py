"""Weights in the layouts of schedules; `tests/meta_schedule/test_lowering.py` has more, with tuned ones."""

from tvm import relax

from autotvm_opevo.lowering.network import lower
from autotvm_opevo.meta_schedule import as_target

CPU = as_target("llvm -mcpu=core-avx2 -num-cores=2")


def test_an_operator_of_a_single_block_is_lowered():
    """TVM scatters by a function that has no root around it."""
    builder = relax.BlockBuilder()
    x, updates = (relax.Var(name, relax.TensorType((4, 4), "float32")) for name in ("x", "updates"))
    indices = relax.Var("indices", relax.TensorType((4, 4), "int64"))
    with builder.function("main", [x, indices, updates]):
        with builder.dataflow():
            y = builder.emit_output(builder.emit(relax.op.scatter_elements(x, indices, updates)))
        builder.emit_func_output(y)
    lowered = lower(builder.finalize(), {}, CPU)
    assert "scatter_elements" in lowered.script()
