"""The file of the best records of a log, and what it keeps of other networks, so that several can share a log."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import count
from math import inf
from pathlib import Path
from typing import Any

from tvm.autotvm.record import encode

from autotvm_opevo._utils.atomic_files import write_whole
from autotvm_opevo.autotvm.extraction import Extraction
from autotvm_opevo.autotvm.layouts import candidates, choose
from autotvm_opevo.autotvm.log import Record, parse, seconds, workload_key
from autotvm_opevo.autotvm.task_state import TaskState
from autotvm_opevo.tuning.drift import Drift, without_drift
from autotvm_opevo.tuning.journal import BestWritten, Journal
from autotvm_opevo.tuning.naming import task_key
from autotvm_opevo.tuning.task_scheduler import Operator

logger = logging.getLogger(__name__)


class BestFile:
    """``NAME.best.json``, for ``autotvm.apply_history_best``: a network's best records, and those of other networks in the log.

    Records of convolutions that layouts connect are chosen together.

    Parameters
    ----------
    path : Path
    states : sequence of TaskState
        Of the network's tasks.
    network : Extraction
    journal : Journal
    records, confirmed, drift, limits
        Of the log; see `best_of_others`.

    Attributes
    ----------
    path : Path
    bandwidth : float
        Of small arrays, in bytes per second, by which transforms between layouts are estimated; 0 if unknown.
    aligned : int
        Number of tasks of which it has another record than the fastest, since transforms would cost more.
    kept_untuned : list of Operator
        Those whose best are slower within the network than untuned.
    """

    def __init__(
        self,
        path: Path,
        states: Sequence[TaskState],
        network: Extraction,
        journal: Journal,
        records: Iterable[Record],
        confirmed: Mapping[tuple[str, Any], tuple[Record, float]],
        drift: Drift,
        limits: Mapping[str, float],
    ) -> None:
        self.path, self._states, self._network, self._journal = path, states, network, journal
        keys, left_out = [state.key for state in states], journal.history.left_out
        self._others = best_of_others(
            records, confirmed, [state.task.workload for state in states], drift, path, left_out, limits
        )
        self._left_out = left_out.difference(keys)
        self._chosen: dict[int, Record] = {}  # by task, if all operators are tuned
        self.bandwidth = next((known for key in keys if (known := journal.history.bandwidths.get(key))), 0.0)
        self.aligned = 0
        self.kept_untuned: list[Operator] = []
        self._is_of_another_log = not records and path.exists()

    def write(self) -> None:
        """Write the file, with what is known now, if there is anything."""
        alone = {i: state.best for i, state in enumerate(self._states) if state.best}
        self._chosen = {**alone, **self._connected(alone)}
        self.aligned = sum(self._chosen[i] is not alone[i] for i in alone)
        together = dict(self._chosen)
        left_out = [i for operator in self.kept_untuned for i in operator.tasks]
        for i in left_out:
            together.pop(i, None)
        for default in {operator.tasks[0] for operator in self.kept_untuned}:
            if untuned := self._states[default].untuned:  # without a record the compiler takes the same, but warns
                together[default] = untuned
        best = [*together.values(), *self._others]
        if best or left_out:
            if self._is_of_another_log:  # which may have been moved away: the work of hours is not overwritten
                names = (self.path.with_name(f"{self.path.name}.old{number or ''}") for number in count())
                kept = self.path.rename(next(name for name in names if not name.exists()))
                logger.warning("%s was there before its log: it is now %s", self.path, kept.name)
                self._is_of_another_log = False
            write_whole(self.path, ((encode(*pair) + "\n").encode() for pair in best))
            keys = [*self._left_out, *(self._states[i].key for i in left_out if i not in together)]
            self._journal.write(BestWritten(aligned=self.aligned, kept_untuned=len(self.kept_untuned), left_out=keys))

    def keep_untuned(self, operators: Iterable[int]) -> bool:
        """Write the untuned configurations of operators, by position, instead of their best; returns whether these differ."""
        changed = [self._network.operators[i] for i in operators if self._is_tuned(self._network.operators[i])]
        if changed:
            self.kept_untuned = changed
            self.write()
        return bool(changed)

    def _is_tuned(self, operator: Operator) -> bool:
        """Whether the fastest alternative is another than the compiler takes without tuning, or has another configuration."""
        fastest = min(operator.tasks, key=lambda i: self._states[i].latency)
        best, untuned = self._chosen.get(fastest), self._states[operator.tasks[0]].untuned
        is_same = best and untuned and fastest == operator.tasks[0] and best[0].config.index == untuned[0].config.index
        return best is not None and not is_same

    def _connected(self, best: Mapping[int, Record]) -> dict[int, Record]:
        """The records to take for the convolutions, by the task's position, given the fastest of each task."""
        if not self.bandwidth:
            return {}
        found, operators = {}, self._network.operators
        for position, operator in enumerate(operators):
            (i, *alternatives) = operator.tasks
            if i in best and not alternatives:
                state = self._states[i]
                found[position] = candidates(state.task, state.records, best[i], state.latency)
        chosen = choose(found, [operator.count for operator in operators], self._network.connections, self.bandwidth)
        return {operators[i].tasks[0]: one.record for i, one in chosen.items()}


def best_of_others(
    records: Iterable[Record],
    confirmed: Mapping[tuple[str, Any], tuple[Record, float]],
    workloads: Iterable[Any],
    drift: Drift,
    file: Path,
    left_out: Container[str] = (),
    limits: Mapping[str, float] | None = None,
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
    limits : mapping, optional
        Latencies in seconds that tasks, by their key in the journal, are not expected to get below.

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
        name = task_key(str(measured.target), measured.task.name, measured.task.args)
        is_left_out = name in left_out
        if (last or is_left_out) and all(result.timestamp <= written for _, result in group):
            found.extend([last] if last else [])
        else:
            record, latency = _best(group, confirmed, drift, (limits or {}).get(name, 0.0))
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
    records: Sequence[Record], confirmed: Mapping[tuple[str, Any], tuple[Record, float]], drift: Drift, limit: float
) -> tuple[Record, float]:
    """The best record of a workload for its last target, and its latency: the confirmed one, unless a later one is faster."""
    key = _key(records[-1])
    timed = [(record, seconds(record[1])) for record in records if _key(record) == key]
    candidates = [(one, without_drift(latency, drift.factor(one[1].timestamp), limit)) for one, latency in timed]
    if key in confirmed:
        since = confirmed[key][0][1].timestamp
        candidates = [confirmed[key], *(pair for pair in candidates if pair[0][1].timestamp > since)]
    return min(candidates, key=lambda pair: pair[1])


def _key(record: Record) -> tuple[str, Any]:
    return workload_key(record[0].target, record[0].task)
