"""Run what the pages show of MetaSchedule, with the names that it takes for granted."""

import numpy as np

from autotvm_opevo.meta_schedule import as_target, lower_for_tuning
from autotvm_opevo.networks import relax as workloads

SHAPES = [(8, 64), (64, 32)]


def run_block(block):
    """The network is a matrix product, or its only operator, where one is tuned."""
    mod, params = workloads.operator("matmul", SHAPES)
    target = as_target("llvm")
    if "tune_tir" in block:
        lowered = lower_for_tuning(mod, params, target)
        functions = {variable.name_hint: one for variable, one in lowered.functions.items()}
        (operator,) = (one for name, one in functions.items() if name != "main")
        mod = type(lowered)({"main": operator})
    arrays = [np.ones(shape, "float32") for shape in SHAPES]
    given = {"mod": mod, "params": params, "target": target, "work_dir": "tir", "arrays": arrays}
    exec(block, given)
