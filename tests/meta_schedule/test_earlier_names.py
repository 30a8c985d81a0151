"""Names that scripts of earlier versions import, with the arguments that they had."""

import numpy as np
from relax_modules import network_with
from tvm import relax
from unoptimized import cpu

from autotvm_opevo.meta_schedule.lowering import (
    build,
    count_changes,
    lower_as_imported,
    lower_for_tuning,
)


def test_networks_are_lowered_with_their_weights():
    mod = network_with((1, 8, 8, 8), (8, 8, 5, 5))(lambda emit, x, w: relax.op.nn.conv2d(x, w))
    arguments = mod, {"x1": np.ones((8, 8, 5, 5), "float32")}, cpu()
    imported, lowered = lower_as_imported(*arguments), lower_for_tuning(*arguments)
    assert isinstance(build(imported, cpu()), relax.VMExecutable)
    assert [count_changes(network)["nhwc"] for network in (imported, lowered)] == [0, 1]
