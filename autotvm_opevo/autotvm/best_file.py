"""The file of the best records of a log, and what it keeps of other networks, so that several can share a log."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import Any

from autotvm_opevo.autotvm.log import Record, parse, seconds, workload_key
from autotvm_opevo.tuning.drift import Drift
from autotvm_opevo.tuning.naming import task_key


def best_of_others(
    records: Iterable[Record],
    confirmed: Mapping[tuple[str, Any], tuple[Record, float]],
    workloads: Iterable[Any],
    drift: Drift,
    file: Path,
    left_out: Container[str] = (),
) -> list[Record]:
    """The best record of each workload in a log that is none of a network's.

    It is the one that the file has, which may have been chosen together with others, until a trial of the workload follows.

    Parameters
    ----------
    records : iterable of (MeasureInput, MeasureResult)
        Of the log.
    confirmed : mapping
        Confirmed records, and their latencies in seconds, by target and workload.
    workloads : iterable
        Of the network.
    drift : Drift
        Of the machine, which latencies are compared without.
    file : Path
        Of the best records, as written at the end of the last run.
    left_out : container of str
        Tasks, by their key in the journal, that it has no record of; they still have none, until a trial follows.

    Returns
    -------
    list of (MeasureInput, MeasureResult)
        ``apply_history_best`` would take the fastest for any similar target. So a workload that was measured for several has one
        record, for the target that was measured last, and the network's own workloads have none.
    """
    own = set(workloads)
    groups: dict[Any, list[Record]] = defaultdict(list)
    for record in records:
        workload = record[0].task.workload
        if workload not in own:
            groups[workload].append(record)
    kept, written = _read(file)
    found = []
    for group in groups.values():
        last, measured = kept.get(_key(group[-1])), group[-1][0]
        is_left_out = task_key(str(measured.target), measured.task.name, measured.task.args) in left_out
        if (last or is_left_out) and all(result.timestamp <= written for _, result in group):
            found.extend([last] if last else [])
        else:
            record, latency = _best(group, confirmed, drift)
            found.extend([record] if latency < inf else [])
    return found


def _read(file: Path) -> tuple[dict[tuple[str, Any], Record], float]:
    """The records of a file by target and workload, and when it was written."""
    records: dict[tuple[str, Any], Record] = {}
    with suppress(OSError):
        for line in file.read_text(errors="replace").splitlines():
            with suppress(ValueError):  # it is written anew, so damage is no error
                if record := parse(line):
                    records[_key(record)] = record
        return records, file.stat().st_mtime
    return {}, -inf


def _best(
    records: Sequence[Record], confirmed: Mapping[tuple[str, Any], tuple[Record, float]], drift: Drift
) -> tuple[Record, float]:
    """The best record of a workload for its last target, and its latency: the confirmed one, unless a later one is faster."""
    key = _key(records[-1])
    candidates = [(record, seconds(record[1]) / drift.factor(record[1].timestamp)) for record in records if _key(record) == key]
    if key in confirmed:
        since = confirmed[key][0][1].timestamp
        candidates = [confirmed[key], *(pair for pair in candidates if pair[0][1].timestamp > since)]
    return min(candidates, key=lambda pair: pair[1])


def _key(record: Record) -> tuple[str, Any]:
    return workload_key(record[0].target, record[0].task)
