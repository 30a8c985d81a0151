"""The file of the best records of a log: a network's, chosen together, and those of other networks
that share the log.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from itertools import count

from tvm.autotvm.record import encode

from autotvm_opevo._utils.atomic_files import write_whole
from autotvm_opevo.autotvm.extraction import Extraction
from autotvm_opevo.autotvm.layouts import candidates, choose
from autotvm_opevo.autotvm.log import Record
from autotvm_opevo.autotvm.store import TrialStore
from autotvm_opevo.autotvm.task_state import TaskState
from autotvm_opevo.tuning.run_log import BestWritten

logger = logging.getLogger(__name__)


class BestFile:
    """``NAME.best.json``, for ``autotvm.apply_history_best``: a network's best records, and those
    of other networks in the log.

    Records of convolutions that layouts connect are chosen together.

    Parameters
    ----------
    states : sequence of TaskState
        Of the network's tasks.
    network : Extraction
    store : TrialStore

    Attributes
    ----------
    path : Path
    bandwidth : float
        Of small arrays, in bytes per second, by which transforms between layouts are estimated; 0
        if unknown.
    aligned : int
        Number of tasks of which it has another record than the fastest, since transforms would cost
        more.
    had_untuned : bool
        Whether it had the untuned network at the end of the last call.
    """

    def __init__(self, states: Sequence[TaskState], network: Extraction, store: TrialStore) -> None:
        self.path, self._run_log = store.best_file, store.run_log
        self._states, self._network = states, network
        self._keys, runs = [state.key for state in states], store.run_log.runs
        self._others = store.best_of_others(state.task.workload for state in states)
        self._left_out = runs.left_out.difference(self._keys)
        self.bandwidth = next(
            (known for key in self._keys if (known := runs.bandwidths.get(key))), 0.0
        )
        self.aligned = 0
        self.had_untuned = runs.untuned.issuperset(self._keys)
        self._untuned_others = runs.untuned.difference(self._keys)
        self._is_of_another_log = not store.log.records and self.path.exists()

    def write(self, untuned: bool) -> None:
        """Write the file, with what is known now, if there is anything; if `untuned`, with the
        configurations that the compiler uses without tuning.
        """
        fastest = {i: state.best for i, state in enumerate(self._states) if state.best}
        if untuned:
            # without a record the compiler takes the same configuration, but warns
            tasks = {operator.tasks[0] for operator in self._network.operators}
            chosen = {i: record for i in tasks if (record := self._states[i].untuned)}
            self.aligned = 0
        else:
            connected = self._connected(fastest)
            chosen = {**fastest, **connected}
            self.aligned = sum(record is not fastest[i] for i, record in connected.items())
        left_out = [self._states[i].key for i in fastest if i not in chosen]
        best = [*chosen.values(), *self._others]
        if best or left_out:
            # which may have been moved away: the work of hours is not overwritten
            if self._is_of_another_log:
                names = (
                    self.path.with_name(f"{self.path.name}.old{number or ''}") for number in count()
                )
                kept = self.path.rename(next(name for name in names if not name.exists()))
                logger.warning("%s was there before its log: it is now %s", self.path, kept.name)
                self._is_of_another_log = False
            write_whole(self.path, ((encode(*pair) + "\n").encode() for pair in best))
            self._run_log.write(
                BestWritten(
                    aligned=self.aligned,
                    left_out=[*self._left_out, *left_out],
                    untuned=[*self._untuned_others, *(self._keys if untuned else ())],
                )
            )

    def _connected(self, best: Mapping[int, Record]) -> dict[int, Record]:
        """The records to take for the convolutions, by the task's position, given the fastest of
        each task.
        """
        if not self.bandwidth:
            return {}
        by_operator, operators = {}, self._network.operators
        for position, operator in enumerate(operators):
            (i, *alternatives) = operator.tasks
            if i in best and not alternatives:
                state = self._states[i]
                by_operator[position] = candidates(state.task, state.records, best[i])
        counts = [operator.count for operator in operators]
        chosen = choose(by_operator, counts, self._network.connections, self.bandwidth)
        return {operators[i].tasks[0]: candidate.record for i, candidate in chosen.items()}
