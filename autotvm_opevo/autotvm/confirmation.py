"""Confirm the best trials of AutoTVM's tasks; see `autotvm_opevo.tuning.confirmation`."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tvm.autotvm.measure import MeasureResult
from tvm.autotvm.task import Task

from autotvm_opevo.autotvm.log import Record
from autotvm_opevo.autotvm.measurer import Measurer
from autotvm_opevo.tuning.confirmation import MIN_ROUNDS, Race


@dataclass(frozen=True)
class Confirmed:
    """The winner of a task's race: its position among the tasks, its record with the confirmed time, and all its latencies."""

    task: int
    record: Record
    latencies: list[float]


def confirm(measurer: Measurer, tasks: Sequence[Task], seconds: float) -> Iterator[Confirmed]:
    """Race the finalists of each task, the first tasks first when time is short; those undecided then have no winner.

    Every round of a task has a new process, whose memory lies elsewhere: that alone makes a kernel faster or slower. A measurer
    that keeps no finalists confirms none.
    """
    end = time.monotonic() + seconds
    finalists = [measurer.finalists.of(task) for task in tasks]
    races = [Race(len(found)) for found in finalists]
    racing = [i for i, found in enumerate(finalists) if len(found) > 1]
    turns = [i for i in racing for _ in range(MIN_ROUNDS)]
    while turns and time.monotonic() < end:
        for i in turns:
            if time.monotonic() >= end:
                break
            if not races[i].finished:
                measurer.restart()
                races[i].add({position: measurer.time_again(finalists[i][position]) for position in races[i].order})
        turns = [i for i in racing if not races[i].finished]
    for i, race in enumerate(races):
        if race.winner is not None:
            winner = finalists[i][race.winner]
            result = MeasureResult((race.latency,), 0, winner.result.all_cost, time.time())
            yield Confirmed(i, (winner.measured, result), race.latencies(race.winner))
