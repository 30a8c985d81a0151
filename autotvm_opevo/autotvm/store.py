"""The trials of an AutoTVM log, with what its run log knows of them: which were timed again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import Any

from autotvm_opevo.autotvm.log import Log, Record, failure, key_of, parse, seconds
from autotvm_opevo.tuning.logs import best_file
from autotvm_opevo.tuning.run_log import RunLog, TrialEnded
from autotvm_opevo.tuning.task_state import TaskState


class TrialStore:
    """See `tuning.task_state.TrialStore`; the trials are of any networks and targets.

    Parameters
    ----------
    log : Log
        Entered.
    run_log : RunLog

    Attributes
    ----------
    log, run log
        As given.
    path : Path
        Of the log.
    best_file : Path
        Of the best records, as written at the end of the last run.
    records : dict of str to list of (MeasureInput, MeasureResult)
        Those that the log had, by task.
    confirmed : dict of str to (MeasureInput, MeasureResult)
        By task: what was timed again last, as it was then.
    """

    def __init__(self, log: Log, run_log: RunLog) -> None:
        self.log, self.path, self.run_log = log, log.path, run_log
        self.best_file = best_file(log.path)
        self.records: defaultdict[str, list[Record]] = defaultdict(list)
        for record in log.records:
            self.records[key_of(record[0].target, record[0].task)].append(record)
        self.confirmed: dict[str, Record] = {}
        for known in run_log.runs.confirmed.values():
            with suppress(ValueError):
                if confirmed := parse(known.record):
                    self.confirmed[key_of(confirmed[0].target, confirmed[0].task)] = confirmed

    def append(self, task: TaskState, trial: Record) -> None:
        """Write a trial to the log, and to the run log an error message, which the log lacks; then
        it is not lost any more.
        """
        self.log.append([trial])
        kind, message = failure(trial[1])
        if kind:
            self.run_log.write(TrialEnded(task=task.key, failure=kind, message=message))

    def best_of_others(self, workloads: Iterable[Any]) -> list[Record]:
        """The best record of each workload that the log had, but of these.

        Until a trial of the workload follows, it is the one that the file of the best has, which
        may have been chosen together with others, and what was left out of that file still is.

        Returns
        -------
        list of (MeasureInput, MeasureResult)
            ``apply_history_best`` would take the fastest for any similar target. So a workload that
            was measured for several has one record, for the target that was measured last, and
            `workloads` have none.
        """
        own = set(workloads)
        groups: dict[Any, list[Record]] = defaultdict(list)
        for record in self.log.records:
            workload = record[0].task.workload
            if workload not in own:
                groups[workload].append(record)
        kept, written = _read(self.best_file)
        chosen = []
        for group in groups.values():
            task = key_of(group[-1][0].target, group[-1][0].task)
            last = kept.get(task)
            if (last or task in self.run_log.runs.left_out) and all(
                result.timestamp <= written for _, result in group
            ):
                chosen.extend([last] if last else [])
            else:
                best = fastest(self.records[task], self.confirmed.get(task))
                chosen.extend([best] if seconds(best[1]) < inf else [])
        return chosen


def fastest(records: Iterable[Record], confirmed: Record | None) -> Record:
    """Of a task's records the one that was confirmed, unless a later one is faster; else the
    fastest of all.
    """
    since = confirmed[1].timestamp if confirmed else -inf
    later = [record for record in records if record[1].timestamp > since]
    return min([*([confirmed] if confirmed else []), *later], key=lambda record: seconds(record[1]))


def _read(file: Path) -> tuple[dict[str, Record], float]:
    """The records of a file by task, and when it was written."""
    records: dict[str, Record] = {}
    with suppress(OSError):
        for line in file.read_text(errors="replace").splitlines():
            with suppress(ValueError):  # it is written anew, so damage is no error
                if record := parse(line):
                    records[key_of(record[0].target, record[0].task)] = record
        return records, file.stat().st_mtime
    return {}, -inf
