"""A small matrix product, tuned for real in seconds."""

from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.meta_schedule.runner import EvaluatorConfig

from autotvm_opevo.meta_schedule import OpEvoStrategy, local_builder, open_database
from benchmarks.workloads import cpu, matmul

SMALL = matmul(64, 64, 64)
QUICK = EvaluatorConfig(number=1, repeat=1, min_repeat_ms=5)


def tune(work_dir, trials, strategy=None, **options):
    strategy = strategy or OpEvoStrategy(seed=0, batch_size=4)
    options = {
        "runner": ms.runner.LocalRunner(evaluator_config=QUICK),
        "builder": local_builder(),
        "database": open_database(work_dir),
        **options,
    }
    return ms.tune_tir(SMALL, cpu(), str(work_dir), trials, strategy=strategy, cost_model="none", **options)


def traces(database):
    return [str(record.trace) for record in database.get_all_tuning_records()]
