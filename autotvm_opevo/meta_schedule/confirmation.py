"""Confirm the best candidates of MetaSchedule's tasks; see `autotvm_opevo.tuning.confirmation`."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Sequence
from math import inf
from pathlib import Path
from typing import Any

from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.meta_schedule.database import TuningRecord

from autotvm_opevo.meta_schedule.database import seconds as seconds_of
from autotvm_opevo.meta_schedule.runner import LocalRunner
from autotvm_opevo.meta_schedule.targets import device_type
from autotvm_opevo.tuning.confirmation import FINALISTS, MAX_RATIO, Confirmed, race

# Seconds for a task at first.
_FIRST_TASK = 2.0


def confirm(tasks: Sequence[Sequence[TuningRecord]], builder: Any, runner: Any, seconds: float) -> Iterator[Confirmed]:
    """Build the finalists of each task again and race them, one task after the other while there is time.

    Parameters
    ----------
    tasks : sequence of sequence of TuningRecord
        The records of each task, the fastest first.
    builder, runner
        MetaSchedule's.
    seconds : float
        No task is begun that is expected to take longer than what is left of them.
    """
    end, longest = time.monotonic() + seconds, _FIRST_TASK
    for i, records in enumerate(tasks):
        start = time.monotonic()
        if start + longest > end:
            return
        confirmed = _confirm(i, _finalists(records), builder, runner, end)
        longest = max(longest, time.monotonic() - start)
        if confirmed:
            yield confirmed


def _finalists(records: Sequence[TuningRecord]) -> list[TuningRecord]:
    """The best records; none that are out of reach of any noise."""
    reach = MAX_RATIO * seconds_of(records[0].run_secs) if records else 0.0
    return [record for record in records[:FINALISTS] if seconds_of(record.run_secs) <= reach < inf]


def _confirm(task: int, finalists: Sequence[TuningRecord], builder: Any, runner: Any, end: float) -> Confirmed | None:
    if len(finalists) < 2:
        return None
    inputs = [ms.builder.BuilderInput(one.as_measure_candidate().sch.mod, one.target) for one in finalists]
    built = list(builder.build(inputs))

    def time_again(_: int, finalist: int) -> float:
        artifact = built[finalist].artifact_path
        if artifact is None:
            return inf
        one = finalists[finalist]
        (future,) = runner.run([ms.runner.RunnerInput(artifact, device_type(one.target), one.args_info)])
        return seconds_of(future.result().run_secs)

    def restart() -> None:
        if isinstance(runner, LocalRunner) and device_type(finalists[0].target) == "cpu":
            runner.close()

    try:
        finished = next((one for _, one in race([len(finalists)], time_again, restart, end)), None)
    finally:
        for result in built:
            if result.artifact_path is not None:
                shutil.rmtree(Path(str(result.artifact_path)).parent, ignore_errors=True)
    if finished is None or finished.winner is None:
        return None
    winner = finalists[finished.winner]
    record = TuningRecord(winner.trace, winner.workload, [finished.latency], winner.target, winner.args_info)
    return Confirmed(task, record, finished.latencies(finished.winner), finished.ties)
