"""OpEvo as a MetaSchedule search strategy. Needs apache-tvm 0.27."""

from autotvm_opevo.meta_schedule.requirement import choose_cuda_compiler, require_meta_schedule

require_meta_schedule()
choose_cuda_compiler()

from autotvm_opevo.meta_schedule.comparison import compare_logs
from autotvm_opevo.meta_schedule.database import open_database
from autotvm_opevo.meta_schedule.compilation import compile_network, lower_for_tuning
from autotvm_opevo.meta_schedule.local import LocalBuilder, LocalRunner, make_runner
from autotvm_opevo.meta_schedule.network import tune_network
from autotvm_opevo.meta_schedule.strategy import OpEvoStrategy
from autotvm_opevo.meta_schedule.targets import as_target, local_target
from autotvm_opevo.tuning.comparison import Comparison
from autotvm_opevo.tuning.result import TuningResult

__all__ = [
    "Comparison",
    "LocalBuilder",
    "LocalRunner",
    "OpEvoStrategy",
    "TuningResult",
    "as_target",
    "compare_logs",
    "compile_network",
    "local_target",
    "lower_for_tuning",
    "make_runner",
    "open_database",
    "tune_network",
]
