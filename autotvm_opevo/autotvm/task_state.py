"""State of one task of a network during tuning: its tuner, its records, and its failures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from math import inf

from tvm.autotvm.measure import MeasureInput, MeasureResult
from tvm.autotvm.task import Task
from tvm.autotvm.task.space import ConfigEntity, FallbackConfigEntity
from tvm.autotvm.tuner import Tuner
from tvm.autotvm.tuner.model_based_tuner import ModelBasedTuner

from autotvm_opevo._utils.interrupts import interrupts_in_tvm
from autotvm_opevo.autotvm.history import History
from autotvm_opevo.autotvm.log import Record, failure, fastest, key_of, seconds
from autotvm_opevo.autotvm.space import KnobSpace
from autotvm_opevo.autotvm.tuner import SearchTuner, TunerFactory
from autotvm_opevo.tuning import task_state
from autotvm_opevo.tuning.record_lines import task_name
from autotvm_opevo.tuning.task_scheduler import TaskProgress
from autotvm_opevo.tuning.workers import stop_tvm_pool


class TaskState(task_state.TaskState):
    """See `tuning.task_state.TaskState`; it has the task's tuner, and all its records.

    It stops after `early_stopping` consecutive trials without improvement. A tuner that can
    transfer learns from `history` and from other tasks, unless `transfer` is false.

    Attributes
    ----------
    space : Space
        Of its configurations.
    best : (MeasureInput, MeasureResult) or None
        The fastest record, or the one that was confirmed.
    """

    best: Record | None = None

    def __init__(
        self,
        task: Task,
        make_tuner: TunerFactory,
        early_stopping: int | None = None,
        history: History | None = None,
        transfer: bool = True,
    ) -> None:
        name, key = task_name(task.name, task.args), key_of(task.target, task)
        super().__init__(task, name, key, TaskProgress(float(task.flop or 0), task.name))
        self._knobs = KnobSpace(task.config_space)
        self.space = self._knobs.space
        self._history = History() if history is None else history  # which may be empty as yet
        self._transfer = transfer
        self._known: dict[int, Record] = {}  # by index of the configuration, of this space's own
        self._best_at = 0
        self._starting = False  # the untuned configuration is being measured
        self._make_tuner, self._early_stopping = make_tuner, early_stopping
        self._tuner: SearchTuner | ForeignTuner | None = None

    def resume(
        self, records: Iterable[Record], round_size: int, confirmed: Record | None = None
    ) -> int:
        """Resume from the records of this task, as if they had been measured now, in rounds;
        returns their number.

        Of the trials that were known when one was confirmed as the best, that one is.
        """
        mine: dict[int, Record] = {}
        taken = 0
        for measured, result in records:
            try:
                number = self._knobs.own(measured.config).index
            except ValueError:  # of another version of the template
                continue
            taken += 1
            # the one that apply_history_best would use
            if number not in mine or seconds(result) < seconds(mine[number][1]):
                mine[number] = MeasureInput(self.task.target, self.task, measured.config), result
        for trial, (number, record) in enumerate(mine.items(), start=1):
            self._learn(number, record)
            if trial % round_size == 0 or trial == len(mine):
                self.end_round()
        if self._tuner is not None and mine:
            self._tuner.load_history(self.records)
        if confirmed:
            with suppress(ValueError):  # of another version of the template
                if self._knobs.own(confirmed[0].config).index in mine:
                    self.confirm(fastest(mine.values(), confirmed))
        return taken

    def confirm(self, record: Record) -> None:
        """Take a record, as it was confirmed, as the best; a later trial can be better."""
        self.best = record
        self.confirmed(seconds(record[1]))

    @property
    def records(self) -> list[Record]:
        """All records, as in the log."""
        return list(self._known.values())

    @property
    def untuned(self) -> Record | None:
        """The record of the configuration that the compiler uses without tuning; None if it is not
        known or failed.
        """
        record = next((self._known.get(config.index) for config in self._fallback()), None)
        return record if record and seconds(record[1]) < inf else None

    def learn_from(self, others: Iterable[TaskState]) -> None:
        """Let the tuner learn from other tasks of the same template, while they are tuned, and from
        the history.

        One that has no successful trial yet says nothing.
        """
        tuner = self.tuner
        if isinstance(tuner, ForeignTuner) or not tuner.can_transfer:
            return
        sources = self._history.sources(self.task.name, self.task.target)
        for other in others:
            if other is self or other.task.name != self.task.name or not other.best:
                continue
            if isinstance(other.tuner, SearchTuner):
                source = other.tuner.as_source()
                if any(source.results.values()):  # a tuner gets results by the batch
                    sources.append(source)
        tuner.learn_from(sources)

    def _propose(self, size: int, others: Sequence[TaskState]) -> list[ConfigEntity]:
        """Ask the tuner for up to `size` configurations to measure.

        The first one of all is the configuration that the compiler uses without tuning, so that a
        short run cannot make a network slower.
        """
        if others:
            self.learn_from(others)
        start = [] if self._known or self.progress.pending else self._fallback()
        # Ask first: with one result, OpEvo would generate children of that configuration instead of
        # its first generation.
        since_best = self.progress.trials - self._best_at
        stopped = self._early_stopping is not None and since_best >= self._early_stopping
        asked = [] if stopped or size <= len(start) else self.tuner.next_batch(size - len(start))
        self._starting = bool(start)
        return list({config.index: config for config in [*start, *asked]}.values())

    def add(self, record: Record) -> None:
        """Count a trial of a configuration that was proposed."""
        self.progress.pending -= 1
        self._learn(record[0].config.index, record)

    def finish(self, trials: Sequence[Record]) -> None:
        """Update the tuner, once all configurations that were proposed together are measured."""
        untuned, asked = (trials[:1], trials[1:]) if self._starting else ([], trials)
        if asked:
            self.tuner.update(*zip(*asked))
        if untuned:  # which the tuner need not have proposed
            self.tuner.load_history(untuned)
        self._starting = False

    @property
    def can_propose(self) -> bool:
        """Whether the tuner can be asked now: AutoTVM's own need the results of one batch before
        the next.

        All must know of the untuned configuration, which they did not propose, or it could be
        measured twice.
        """
        return self.progress.pending == 0 or (self.tuner.proposes_ahead and not self._starting)

    @property
    def tuner(self) -> SearchTuner | ForeignTuner:
        """The tuner, made on first use: AutoTVM's are expensive, and a small budget may never get
        to this task.
        """
        if self._tuner is None:
            tuner = self._make_tuner(self.task)
            if isinstance(tuner, SearchTuner):
                tuner.transfer &= self._transfer
                self._tuner = tuner
            else:
                self._tuner = ForeignTuner(tuner, self._known, self._knobs)
            if self._known:
                self._tuner.load_history(self.records)
        return self._tuner

    def _fallback(self) -> list[ConfigEntity]:
        """The configuration that the compiler uses without tuning, as a list; empty if it is not in
        the space.
        """
        fallback = FallbackConfigEntity()
        try:
            with self.task.target, interrupts_in_tvm(defer=True):
                self.task.instantiate(fallback)
            return [self._knobs.own(fallback)]
        except Exception:  # whatever a template raises
            return []

    def _learn(self, number: int, record: Record) -> None:
        result = record[1]
        self._known[number] = record
        self.progress.seconds += max(0.0, float(result.all_cost))  # known from a log as well
        if (latency := seconds(result)) < self.latency:
            self.best, self._best_at = record, self.progress.trials + 1
        self._count(latency, *failure(result))


class ForeignTuner:
    """One of AutoTVM's own tuners, or a user's, which forget what a log has, and may repeat
    themselves: known configurations get the known result.

    `known` has all trials of its task, by index of the configuration, also those that follow.
    """

    proposes_ahead = False  # each batch needs the results of the one before

    def __init__(self, tuner: Tuner, known: Mapping[int, Record], knobs: KnobSpace) -> None:
        self._tuner, self._known, self._knobs = tuner, known, knobs
        # as the tuner has them, and as its task's records have them
        self._asked: list[tuple[ConfigEntity, ConfigEntity]] = []

    def next_batch(self, batch_size: int) -> list[ConfigEntity]:
        """Up to `batch_size` configurations that are not known; none at the end."""
        # One that never repeats itself has something new by then; others might go on for ever.
        for _ in range(len(self._known) + 1):
            if not self._tuner.has_next():
                break
            asked = list(self._tuner.next_batch(batch_size))
            self._asked = [(config, self._knobs.own(config)) for config in asked]
            fresh = [own for _, own in self._asked if own.index not in self._known]
            if fresh:
                return fresh
            self.update()
        return []

    def update(self, *_: object) -> None:
        """Pass on the results of the last batch, all of which are known by now."""
        task = self._tuner.task
        inputs = [MeasureInput(task.target, task, config) for config, _ in self._asked]
        results = [self._known[own.index][1] for _, own in self._asked]
        self._asked = []
        if inputs:
            self._update(inputs, results)

    def load_history(self, records: Iterable[Record]) -> None:
        """Pass on trials that it did not propose, but for one that its last batch may have had
        alone.
        """
        self.update()
        if not isinstance(self._tuner, ModelBasedTuner):
            with suppress(NotImplementedError):  # by tuners that do not use history
                self._tuner.load_history(records)
            return
        # Its `load_history` ignores fewer than 500. Its `update` knows a configuration by its
        # index, which is another one in a log of an earlier space, and takes none that a filter
        # rejects, as it may the untuned one.
        task, knobs = self._tuner.task, self._knobs
        known = [(knobs.configuration(measured.config), result) for measured, result in records]
        valid = [
            (MeasureInput(task.target, task, knobs.config_entity(configuration)), result)
            for configuration, result in known
            if knobs.space.is_feasible(configuration)
        ]
        if valid:
            self._update(*zip(*valid))

    def _update(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        try:
            self._tuner.update(inputs, results)
        finally:
            # A cost model keeps as many processes as there are cores, for each task; it starts new
            # ones when it learns again.
            stop_tvm_pool(getattr(getattr(self._tuner, "cost_model", None), "pool", None))
