"""What is known of a machine's limits, as a function of operations and bytes."""

import math
from types import SimpleNamespace

from autotvm_opevo.tuning.roofline import Roofline
from autotvm_opevo.tuning.run import Budget, TuningRun
from autotvm_opevo.tuning.run_log import RunLog
from autotvm_opevo.tuning.task_scheduler import TaskProgress


def test_what_caches_hold_is_read_faster():
    roofline = Roofline(bandwidths=((1e3, 1e9), (1e6, 1e6)))
    assert [roofline.latency(0, size) for size in (999, 1e3, 1e5, 1e6, 2e6)] == [
        0,
        1e-6,
        1e-4,
        1.0,
        2.0,
    ]


class Run(TuningRun):
    _measure_machine = write_best = _use_confirmed = None


def test_tasks_whose_operations_do_not_limit_them_are_memory_bound(tmp_path):
    work = {"compute": (2e9, 1e6), "memory": (1e6, 2e9), "none": (0.0, 0.0)}
    tasks = [SimpleNamespace(key=key, progress=TaskProgress(limit=math.nan)) for key in work]
    run = Run(tasks, [], Budget(8), 1, SimpleNamespace(run_log=RunLog(tmp_path / "journal")))
    roofline = Roofline(flops=1e9, bandwidths=((1.0, 1e9),))
    run._measure_limits(lambda: roofline, lambda task: work[task.key], None)
    assert [task.progress.limit for task in tasks] == [2.0, 2.0, 0.0]
    known = RunLog(tmp_path / "journal").runs
    assert known.limits == {"compute": 2.0, "memory": 2.0}
    assert known.memory_bound == {"memory"}
    assert known.sizes == {"compute": 1e6, "memory": 2e9}
    assert known.bandwidths["memory"] == 1e9
