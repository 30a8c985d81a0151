"""What is known of a machine's bounds, as a function of operations and bytes."""

import math
from types import SimpleNamespace

import pytest

from autotvm_opevo.tuning.roofline import Roofline, measure
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


class Te:
    """As much of ``tvm.te`` as says which shapes are computed."""

    sum = staticmethod(lambda *_, **__: None)
    reduce_axis = staticmethod(lambda *_, **__: None)
    placeholder = staticmethod(lambda shape, **_: SimpleNamespace(shape=shape))
    compute = staticmethod(lambda shape, *_, **__: SimpleNamespace(shape=shape))


@pytest.mark.parametrize("threads", [1, 2, 24, 56, 60, 64, 96, 128])
def test_all_threads_read_as_much(threads):
    """A part that is left over takes as long as one for each thread."""

    def seconds(tensors):
        parts = tensors[-1].shape[0]
        return math.ceil(parts / threads) * math.prod(tensors[0].shape[1:])

    roofline = measure(Te, seconds, threads)
    assert [speed for _, speed in roofline.bandwidths] == [4 * threads] * 4
    assert roofline.bandwidths[-1][0] == pytest.approx(1 << 28, rel=0.01)


class Run(TuningRun):
    _measure_machine = write_best = _use_confirmed = None


def test_tasks_whose_operations_do_not_limit_them_are_memory_bound(tmp_path):
    work = {"compute": (2e9, 1e6), "memory": (1e6, 2e9), "none": (0.0, 0.0)}
    tasks = [SimpleNamespace(key=key, progress=TaskProgress(), bound=math.nan) for key in work]
    run = Run(tasks, [], Budget(8), 1, SimpleNamespace(run_log=RunLog(tmp_path / "journal")))
    roofline = Roofline(flops=1e9, bandwidths=((1.0, 1e9),))
    run._measure_bounds(lambda: roofline, lambda task: work[task.key], None)
    assert [task.bound for task in tasks] == [2.0, 2.0, 0.0]
    known = RunLog(tmp_path / "journal").runs
    assert known.bounds == {"compute": 2.0, "memory": 2.0}
    assert known.memory_bound == {"memory"}
    assert known.sizes == {"compute": 1e6, "memory": 2e9}
