"""The file of the best."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import count

from tvm.autotvm.record import encode

from autotvm_opevo._utils.atomic_files import write_whole
from autotvm_opevo.autotvm.store import TrialStore
from autotvm_opevo.autotvm.task_state import TaskState
from autotvm_opevo.tuning.run_log import BestWritten
from autotvm_opevo.tuning.task_scheduler import Operator

logger = logging.getLogger(__name__)


class BestFile:
    """``NAME.best.json``, for ``autotvm.apply_history_best``: a network's best records, and those
    of other networks in the log.

    Attributes
    ----------
    had_untuned : bool
        Whether it had the untuned network at the end of the last call.
    """

    def __init__(
        self, states: Sequence[TaskState], operators: Sequence[Operator], store: TrialStore
    ) -> None:
        self.path, self._run_log = store.best_file, store.run_log
        self._states, self._operators = states, operators
        self._keys, runs = [state.key for state in states], store.run_log.runs
        self._others = store.best_of_others(state.task.workload for state in states)
        self._left_out = runs.left_out.difference(self._keys)
        self.had_untuned = runs.untuned.issuperset(self._keys)
        self._untuned_others = runs.untuned.difference(self._keys)
        self._is_of_another_log = not store.records and self.path.exists()

    def write(self, untuned: bool) -> None:
        """Write the file, with what is known now, if there is anything; if `untuned`, with the
        configurations that the compiler uses without tuning.
        """
        tuned = {i: state.best for i, state in enumerate(self._states) if state.best}
        chosen = tuned
        if untuned:
            # without a record the compiler takes the same configuration, but warns
            tasks = {operator.tasks[0] for operator in self._operators}
            chosen = {i: record for i in tasks if (record := self._states[i].untuned)}
        left_out = [self._states[i].key for i in tuned if i not in chosen]
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
                    left_out=[*self._left_out, *left_out],
                    untuned=[*self._untuned_others, *(self._keys if untuned else ())],
                )
            )
