"""An earlier name of `autotvm_opevo.lowering.network` and `compilation`, which scripts import."""

from autotvm_opevo.lowering.network import build, check_shapes, lower_as_imported
from autotvm_opevo.meta_schedule.compilation import compile_network, lower_for_tuning

__all__ = [
    "build",
    "check_shapes",
    "compile_network",
    "lower_as_imported",
    "lower_for_tuning",
]
