"""OpEvo for AutoTVM: everything that imports ``tvm.autotvm`` (TVM 0.8 to 0.19)."""

from autotvm_opevo.autotvm.requirement import require_autotvm

require_autotvm()

from autotvm_opevo.autotvm.baselines import GBFSTuner, NA2CTuner, NoSETuner
from autotvm_opevo.autotvm.builder import LocalBuilder
from autotvm_opevo.autotvm.comparison import compare_logs
from autotvm_opevo.autotvm.measurer import default_measure_option
from autotvm_opevo.autotvm.network import tune_network
from autotvm_opevo.autotvm.runner import LocalRunner
from autotvm_opevo.autotvm.targets import local_target
from autotvm_opevo.autotvm.tuner import OpEvoTuner
from autotvm_opevo.tuning.comparison import Comparison
from autotvm_opevo.tuning.result import TuningResult

__all__ = [
    "Comparison",
    "GBFSTuner",
    "LocalBuilder",
    "LocalRunner",
    "NA2CTuner",
    "NoSETuner",
    "OpEvoTuner",
    "TuningResult",
    "compare_logs",
    "default_measure_option",
    "local_target",
    "tune_network",
]
