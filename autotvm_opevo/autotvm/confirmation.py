"""Confirm the best trials of AutoTVM's tasks; see `autotvm_opevo.tuning.confirmation`."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from tvm.autotvm.measure import MeasureResult
from tvm.autotvm.task import Task

from autotvm_opevo.autotvm.measurer import Measurer
from autotvm_opevo.tuning.confirmation import Confirmed, race


def confirm(measurer: Measurer, tasks: Sequence[Task], seconds: float) -> Iterator[Confirmed]:
    """Race the finalists of each task, as far as the time allows. A measurer that keeps none confirms none."""
    end = time.monotonic() + seconds
    finalists = [measurer.finalists.of(task) for task in tasks]

    def time_again(task: int, finalist: int) -> float:
        return measurer.time_again(finalists[task][finalist])

    for i, finished in race([len(found) for found in finalists], time_again, measurer.restart, end):
        assert finished.winner is not None
        winner = finalists[i][finished.winner]
        result = MeasureResult((finished.latency,), 0, winner.result.all_cost, time.time())
        yield Confirmed(i, (winner.measured, result), finished.latencies(finished.winner), finished.ties)
