"""Confirm the best candidates of MetaSchedule's tasks; see `autotvm_opevo.tuning.race`."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from math import inf
from statistics import median

from tvm.s_tir.meta_schedule.database import TuningRecord

from autotvm_opevo.meta_schedule.database import seconds as seconds_of
from autotvm_opevo.meta_schedule.measurer import Measurer, remove
from autotvm_opevo.tuning import race
from autotvm_opevo.tuning.race import FINALISTS, MAX_RATIO, Race

# Seconds for a task at first.
_FIRST_TASK = 2.0


def confirm(
    tasks: Sequence[Sequence[TuningRecord]], measurer: Measurer, seconds: float
) -> Iterator[tuple[int, TuningRecord, Race]]:
    """Build the finalists of each task again and race them, one task after the other while there is time.

    Parameters
    ----------
    tasks : sequence of sequence of TuningRecord
        The records of each task, the fastest first.
    measurer : Measurer
    seconds : float
        No task is begun that is expected to take longer than what is left of them.
    """
    end, longest = time.monotonic() + seconds, _FIRST_TASK
    for i, records in enumerate(tasks):
        start = time.monotonic()
        if start + longest > end:
            return
        confirmed = _confirm(_finalists(records), measurer, end)
        longest = max(longest, time.monotonic() - start)
        if confirmed:
            yield i, *confirmed


def _finalists(records: Sequence[TuningRecord]) -> list[TuningRecord]:
    """The best records; none that are out of reach of any noise."""
    reach = MAX_RATIO * seconds_of(records[0].run_secs) if records else 0.0
    return [record for record in records[:FINALISTS] if seconds_of(record.run_secs) <= reach < inf]


def _confirm(finalists: Sequence[TuningRecord], measurer: Measurer, end: float) -> tuple[TuningRecord, Race] | None:
    if len(finalists) < 2:
        return None
    candidates = [one.as_measure_candidate() for one in finalists]
    built = measurer.build(candidates)
    try:
        left = end - time.monotonic()
        found = race.confirm([len(finalists)], lambda _, i: measurer.time_again(candidates[i], built[i]), measurer.restart, left)
        finished = next((one for _, one in found), None)
    finally:
        for one in built:
            remove(one)
    if finished is None:
        return None
    winner, latency = finalists[finished.fastest], median(finished.seconds(finished.fastest))
    return TuningRecord(winner.trace, winner.workload, [latency], winner.target, winner.args_info), finished
