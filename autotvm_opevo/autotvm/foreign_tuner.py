"""AutoTVM's own tuners, or a user's, in `tune_network`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from tvm.autotvm.measure import MeasureInput
from tvm.autotvm.task.space import ConfigEntity
from tvm.autotvm.tuner import Tuner
from tvm.autotvm.tuner.model_based_tuner import ModelBasedTuner

from autotvm_opevo.autotvm.log import Record
from autotvm_opevo.autotvm.space import KnobSpace
from autotvm_opevo.search.transfer import Source


class ForeignTuner:
    """A tuner that forgets what a log has, and repeats itself, for a `TaskState`: known
    configurations get the known result.

    Parameters
    ----------
    tuner : tvm.autotvm.tuner.Tuner
    known : mapping of int to Record
        All trials of its task, by index of the configuration; changes while they are measured.
    knobs : KnobSpace
        Of its task.
    """

    can_transfer = False
    proposes_ahead = False  # each batch needs the results of the one before
    sources: Sequence[Source] = ()

    def __init__(self, tuner: Tuner, known: Mapping[int, Record], knobs: KnobSpace) -> None:
        self._tuner, self._known, self._knobs = tuner, known, knobs
        self._asked: list[ConfigEntity] = []

    def next_batch(self, batch_size: int) -> list[ConfigEntity]:
        """Up to `batch_size` configurations that are not known; none at the end."""
        # One that never repeats itself has something new by then; others might go on for ever.
        for _ in range(len(self._known) + 1):
            if not self._tuner.has_next():
                break
            self._asked = list(self._tuner.next_batch(batch_size))
            fresh = [config for config in self._asked if self._index(config) not in self._known]
            if fresh:
                return fresh
            self.update()
        return []

    def update(self, *_: object) -> None:
        """Pass on the results of the last batch, all of which are known by now."""
        task = self._tuner.task
        inputs = [MeasureInput(task.target, task, config) for config in self._asked]
        results = [self._known[self._index(config)][1] for config in self._asked]
        self._asked = []
        if inputs:
            self._tuner.update(inputs, results)

    def load_history(self, records: Iterable[Record]) -> None:
        """Pass on trials that it did not propose, but for one that its last batch may have had
        alone.
        """
        self.update()
        if isinstance(self._tuner, ModelBasedTuner):  # its `load_history` ignores fewer than 500
            self._tuner.update(*zip(*records))
        else:
            with suppress(NotImplementedError):  # by tuners that do not use history
                self._tuner.load_history(records)

    def _index(self, config: ConfigEntity) -> int:
        return self._knobs.space.index(self._knobs.configuration(config))
