"""The file of the best records of a log: a network's, chosen together, and those of other networks
that share the log.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from itertools import count

from tvm.autotvm.record import encode

from autotvm_opevo._utils.atomic_files import write_whole
from autotvm_opevo.autotvm.extraction import Extraction
from autotvm_opevo.autotvm.layouts import candidates, choose
from autotvm_opevo.autotvm.log import Record
from autotvm_opevo.autotvm.store import TrialStore
from autotvm_opevo.autotvm.task_state import TaskState
from autotvm_opevo.tuning.journal import BestWritten
from autotvm_opevo.tuning.task_scheduler import Operator

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
    kept_untuned : list of Operator
        Those whose best are slower within the network than untuned.
    """

    def __init__(self, states: Sequence[TaskState], network: Extraction, store: TrialStore) -> None:
        self.path, self._states, self._network, self._journal = (
            store.best_file,
            states,
            network,
            store.journal,
        )
        keys, history = [state.key for state in states], store.journal.history
        self._others = store.best_of_others(state.task.workload for state in states)
        self._left_out = history.left_out.difference(keys)
        self._chosen: dict[int, Record] = {}  # by task, if all operators are tuned
        self.bandwidth = next(
            (known for key in keys if (known := history.bandwidths.get(key))), 0.0
        )
        self.aligned = 0
        self.kept_untuned: list[Operator] = []
        self._is_of_another_log = not store.log.records and self.path.exists()

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
            # without a record the compiler takes the same, but warns
            if untuned := self._states[default].untuned:
                together[default] = untuned
        best = [*together.values(), *self._others]
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
            keys = [*self._left_out, *(self._states[i].key for i in left_out if i not in together)]
            self._journal.write(
                BestWritten(
                    aligned=self.aligned, kept_untuned=len(self.kept_untuned), left_out=keys
                )
            )

    def keep_untuned(self, operators: Iterable[int]) -> bool:
        """Write the untuned configurations of operators, by position, instead of their best;
        returns whether these differ.
        """
        changed = [
            self._network.operators[i]
            for i in operators
            if self._is_tuned(self._network.operators[i])
        ]
        if changed:
            self.kept_untuned = changed
            self.write()
        return bool(changed)

    def _is_tuned(self, operator: Operator) -> bool:
        """Whether the fastest alternative is another than the compiler takes without tuning, or has
        another configuration.
        """
        fastest = min(operator.tasks, key=lambda i: self._states[i].latency)
        best, untuned = self._chosen.get(fastest), self._states[operator.tasks[0]].untuned
        is_same = (
            best
            and untuned
            and fastest == operator.tasks[0]
            and best[0].config.index == untuned[0].config.index
        )
        return best is not None and not is_same

    def _connected(self, best: Mapping[int, Record]) -> dict[int, Record]:
        """The records to take for the convolutions, by the task's position, given the fastest of
        each task.
        """
        if not self.bandwidth:
            return {}
        found, operators = {}, self._network.operators
        for position, operator in enumerate(operators):
            (i, *alternatives) = operator.tasks
            if i in best and not alternatives:
                state = self._states[i]
                found[position] = candidates(state.task, state.records, best[i])
        chosen = choose(
            found,
            [operator.count for operator in operators],
            self._network.connections,
            self.bandwidth,
        )
        return {operators[i].tasks[0]: one.record for i, one in chosen.items()}
