"""Real tuning of a small matrix product, in seconds."""

from concurrent.futures import ThreadPoolExecutor

import tvm
from tvm import relax
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.meta_schedule.database import TuningRecord
from tvm.s_tir.meta_schedule.runner import EvaluatorConfig
from unoptimized import cpu

from autotvm_opevo.meta_schedule import LocalBuilder, LocalRunner, OpEvoStrategy, open_database
from autotvm_opevo.meta_schedule.evaluation import Instance
from autotvm_opevo.meta_schedule.intrinsics import import_tensor_intrinsics
from benchmarks.workloads import matmul

import_tensor_intrinsics()
SMALL = matmul(64, 64, 64)
QUICK = EvaluatorConfig(number=1, repeat=1, min_repeat_ms=5)
# Seconds for one build and for one run, even on a busy machine.
TIMEOUT = 200


def builder():
    """A builder that a busy machine does not time out."""
    return LocalBuilder(timeout_sec=TIMEOUT)


def runner():
    """A runner that measures for a few milliseconds."""
    return LocalRunner(timeout_sec=TIMEOUT, evaluator_config=QUICK)


def tune(work_dir, trials, strategy=None, **options):
    """Tune `SMALL` into a work directory, and return the database."""
    strategy = strategy or OpEvoStrategy(seed=0, batch_size=4)
    options = {
        "runner": runner(),
        "builder": builder(),
        "database": open_database(work_dir),
        **options,
    }
    return ms.tune_tir(
        SMALL, cpu(), str(work_dir), trials, strategy=strategy, cost_model="none", **options
    )


def timed(record, latency, target=None):
    """A record as if it had been timed again, or on another target."""
    return TuningRecord(
        record.trace, record.workload, [latency], target or record.target, record.args_info
    )


def count_scheduled(lowered, target, folder):
    """Number of operators of a network for which TVM takes a schedule of a database."""
    with target, open_database(folder):
        applied = relax.transform.MetaScheduleApplyDatabase()(lowered)
    functions = applied.functions.values()
    return sum(bool(function.attrs.get("tirx.is_scheduled")) for function in functions)


def outputs(executables, inputs):
    """Output tensors of Relax networks on the same inputs. TVM binds the thread that runs them to
    one core.
    """
    with ThreadPoolExecutor(1) as pool:
        return list(
            pool.map(
                lambda executable: Instance(executable, tvm.cpu(), inputs).outputs(), executables
            )
        )


def traces(database):
    """Traces of all records."""
    return [str(record.trace) for record in database.get_all_tuning_records()]
