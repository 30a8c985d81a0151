"""Names that scripts of earlier versions import, with the arguments that they had."""

import numpy as np
from tvm import relax
from unoptimized import cpu

from autotvm_opevo.meta_schedule.lowering import (
    build,
    count_changes,
    lower_as_imported,
    lower_for_tuning,
)


def test_networks_are_lowered_with_their_weights():
    x, weight = (
        relax.Var(name, relax.TensorType(shape, "float32"))
        for name, shape in (("x", (1, 8, 8, 8)), ("weight", (8, 8, 5, 5)))
    )
    blocks = relax.BlockBuilder()
    with blocks.function("main", [x, weight], attrs={"num_input": 1}):
        with blocks.dataflow():
            y = blocks.emit_output(relax.op.nn.conv2d(x, weight))
        blocks.emit_func_output(y)
    arguments = blocks.finalize(), {"weight": np.ones((8, 8, 5, 5), "float32")}, cpu()
    imported, lowered = lower_as_imported(*arguments), lower_for_tuning(*arguments)
    assert isinstance(build(imported, cpu()), relax.VMExecutable)
    assert [count_changes(network)["nhwc"] for network in (imported, lowered)] == [0, 1]
