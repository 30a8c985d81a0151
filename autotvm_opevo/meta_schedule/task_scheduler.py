"""The task scheduler of `tune_network`, where TVM asks for the next task."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvm.ir.utils import derived_object
from tvm.s_tir.meta_schedule.task_scheduler import PyTaskScheduler

from autotvm_opevo.meta_schedule.interrupts import SigintGuard


@derived_object
class CallbackScheduler(PyTaskScheduler):
    """Ask a function for the next task, once all results that are there have been stored.

    TVM's gradient-based scheduler first builds and runs a batch of every task, and only then stores results: an interrupted run
    would lose them. It counts trials, not seconds, and promises tasks more than the machine's limits allow.

    Parameters
    ----------
    tasks : int
        Number of tasks.
    choose : callable
        Takes TVM's records of all tasks; returns the position of the next task, or None to end the run.
    guard : SigintGuard
    """

    def __init__(self, tasks: int, choose: Callable[[Sequence[Any]], int | None], guard: SigintGuard) -> None:
        super().__init__()
        self._tasks, self._choose, self._guard = tasks, choose, guard

    def next_task_id(self) -> int:
        """Called by TVM for every batch; -1 ends the run."""
        scheduler = self._outer()
        while True:
            with self._guard.deferred():  # TVM stores results by other callbacks
                for i in range(self._tasks):
                    scheduler.touch_task(i)
            records = list(scheduler.tasks_)
            task = self._choose(records)
            if task is None:
                return -1
            if records[task].measure_candidates is None:
                return task
            with self._guard.deferred():  # its batch is on another device
                scheduler.join_running_task(task)
