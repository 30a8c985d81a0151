"""Weights in the layouts of schedules; `tests/meta_schedule/test_lowering.py` has more, with tuned
ones.
"""

import numpy as np
from quick_tuning import outputs
from tvm import relax
from unoptimized import cpu

from autotvm_opevo.lowering.network import build, lower

CPU = cpu()


def test_an_operator_of_a_single_block_is_compiled():
    """TVM scatters by a function that has no block around it, which its pass that packs weights
    refuses.
    """
    rng = np.random.default_rng(0)
    weight, data = (rng.standard_normal((4, 4)).astype("float32") for _ in range(2))
    indices, updates = rng.integers(0, 4, (2, 4)), np.ones((2, 4), "float32")
    x = relax.Var("x", relax.TensorType((4, 4), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            y = builder.emit(relax.op.matmul(x, relax.const(weight)))
            y = builder.emit_output(
                relax.op.scatter_elements(
                    y, relax.const(indices), relax.const(updates), reduction="add"
                )
            )
        builder.emit_func_output(y)
    lowered = lower(builder.finalize(), CPU)
    assert "scatter_elements" in lowered.script()
    ((found,),) = outputs([build(lowered, CPU)], [data])
    expected = data @ weight
    np.add.at(expected, (indices, np.arange(4)), updates)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
