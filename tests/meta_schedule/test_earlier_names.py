"""Names that scripts of earlier versions import, with the arguments that they had."""

import tvm
from unoptimized import cpu

from autotvm_opevo.meta_schedule import workloads
from autotvm_opevo.meta_schedule.lowering import (
    build,
    count_changes,
    lower_as_imported,
    lower_for_tuning,
)


def test_networks_are_lowered_with_their_weights():
    mod, params = workloads.operator("nn.conv2d", [(1, 8, 8, 8), (8, 8, 5, 5)])
    imported, lowered = (
        lower(mod, params, cpu()) for lower in (lower_as_imported, lower_for_tuning)
    )
    assert isinstance(build(imported, cpu()), tvm.relax.VMExecutable)
    assert [count_changes(network)["nhwc"] for network in (imported, lowered)] == [0, 1]
