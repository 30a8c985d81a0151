"""One task of a network while it is tuned: its tuner, what is known already, and what failed and why."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress

from tvm.autotvm.measure import MeasureErrorNo, MeasureInput, MeasureResult
from tvm.autotvm.task import Task
from tvm.autotvm.task.space import ConfigEntity, FallbackConfigEntity
from tvm.autotvm.tuner import Tuner
from tvm.error import TVMError

from autotvm_opevo.autotvm.log import Record, configuration_of, seconds
from autotvm_opevo.autotvm.space import KnobSpace
from autotvm_opevo.tuning.task_scheduler import TaskProgress

TunerFactory = Callable[..., Tuner]
Measure = Callable[[Task, list[ConfigEntity]], list[Record]]

# A tuner that proposes so many batches in a row of nothing but what is known, and one more for each that is, has no more to say.
_STALE = 100


class TaskState:
    """A task, its tuner, and all that is known of it.

    Parameters
    ----------
    task : tvm.autotvm.task.Task
    make_tuner : callable
        A class of AutoTVM's tuners, or anything that makes one of a task.
    seed : int, optional
        Given to `make_tuner` as ``seed``, if it takes that.
    early_stopping : int, optional
        The task wants no more trials after so many in a row that were not the best.

    Attributes
    ----------
    progress : Progress
        For an `TaskScheduler`.
    best : (MeasureInput, MeasureResult) or None
        The fastest record.
    failures : Counter
        Trials by the kind of error, in the words of ``MeasureErrorNo``.
    errors : Counter
        Trials by the error's message, which no log holds.
    """

    def __init__(self, task: Task, make_tuner: TunerFactory, seed: int | None, early_stopping: int | None = None) -> None:
        self.task = task
        self.progress = TaskProgress(flop=float(task.flop or 0), kind=task.name)
        self.best: Record | None = None
        self.failures: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self._knobs = KnobSpace(task.config_space)
        self._known: dict[int, Record] = {}  # by the configuration's number in the space
        self._best_at = 0
        self._make_tuner, self._seed, self._early_stopping = make_tuner, seed, early_stopping
        self._tuner: Tuner | None = None

    def load(self, records: Iterable[Record], round_size: int) -> int:
        """Take those records that are of this task, as if they had been measured now, in rounds; returns how many are."""
        mine: dict[int, Record] = {}
        taken = 0
        for measured, result in records:
            configuration = configuration_of(measured, self.task, self._knobs)
            if configuration is None:
                continue
            taken += 1
            number = self._knobs.space.index(configuration)
            if number not in mine or seconds(result) < seconds(mine[number][1]):  # of two, what apply_history_best would take
                mine[number] = MeasureInput(self.task.target, self.task, measured.config), result
        for trial, (number, record) in enumerate(mine.items(), start=1):
            self._learn(number, record)
            if trial % round_size == 0 or trial == len(mine):
                self.end_round()
        return taken

    def measure_batch(self, size: int, measure: Measure) -> int:
        """Let the tuner propose up to `size` configurations, measure those that nothing is known of, and tell it.

        The very first is the task's untuned configuration, so that tuning a little cannot make a network slower than not tuning.
        Returns how many were measured; none when the task is done, and then ``progress.active`` is False.
        """
        start = self._untuned()
        for _ in range(_STALE + len(self._known)):
            # Asked first: OpEvo then has its random configurations before it is told of one that would be their only parent.
            if self._stopped_early() or not (self.tuner.has_next() or start):
                break
            configs = self.tuner.next_batch(size - len(start)) if size > len(start) else []
            numbers = list(map(self._number, configs))
            fresh = {self._number(config): config for config in start}
            fresh.update((number, config) for number, config in zip(numbers, configs) if number not in self._known)
            if fresh:
                for number, record in zip(fresh, measure(self.task, list(fresh.values()))):
                    self._learn(number, record)
            if configs:
                inputs = [MeasureInput(self.task.target, self.task, config) for config in configs]
                self.tuner.update(inputs, [self._known[number][1] for number in numbers])
            self._tell([self._known[self._number(config)] for config in start])
            if fresh:
                return len(fresh)
        self.progress.active = False
        return 0

    def end_round(self) -> None:
        """Note the best latency for the `TaskScheduler`."""
        self.progress.latencies.append(self.latency)

    @property
    def latency(self) -> float:
        """The best so far in seconds, infinite while nothing has worked."""
        return seconds(self.best[1]) if self.best else float("inf")

    @property
    def dominant_error(self) -> str:
        """While all trials fail, the most common error, in full as far as that is known."""
        if self.best or not self.failures:
            return ""
        return self.errors.most_common(1)[0][0] if self.errors else self.failures.most_common(1)[0][0]

    @property
    def tuner(self) -> Tuner:
        """Made when it is first needed: some are expensive, and a small budget may never come to them."""
        if self._tuner is None:
            takes_seed = self._seed is not None and "seed" in inspect.signature(self._make_tuner).parameters
            self._tuner = self._make_tuner(self.task, **({"seed": self._seed} if takes_seed else {}))
            self._tell(list(self._known.values()))
        return self._tuner

    def close(self) -> None:
        """End what the tuner has running: AutoTVM's cost models have worker processes."""
        end = getattr(getattr(self._tuner, "cost_model", None), "_close_pool", None)
        if end:
            end()

    def _tell(self, records: list[Record]) -> None:
        """Tell the tuner what it did not propose."""
        if not records:
            return
        if hasattr(self.tuner, "cost_model"):  # of XGBTuner, whose load_history ignores what is less than 500 records
            self.tuner.update(*zip(*records))
        else:
            with suppress(NotImplementedError):  # AutoTVM's way to say that a tuner does not learn from history
                self.tuner.load_history(records)

    def _number(self, config: ConfigEntity) -> int:
        return self._knobs.space.index(self._knobs.configuration(config))

    def _untuned(self) -> list[ConfigEntity]:
        """What the compiler would take without records, unless that is known already, or is none of the space."""
        if self._known:
            return []
        fallback = FallbackConfigEntity()
        try:
            with self.task.target:
                self.task.instantiate(fallback)
            return [self._knobs.config_entity(self._knobs.configuration(fallback))]
        except (TVMError, ValueError):
            return []

    def _learn(self, number: int, record: Record) -> None:
        result = record[1]
        self._known[number] = record
        self.progress.trials += 1
        if result.error_no != MeasureErrorNo.NO_ERROR:
            kind, message = failure(result)
            self.failures[kind] += 1
            if message:
                self.errors[message] += 1
        elif seconds(result) < self.latency:
            self.best, self._best_at = record, self.progress.trials

    def _stopped_early(self) -> bool:
        return self._early_stopping is not None and self.progress.trials - self._best_at >= self._early_stopping


def failure(result: MeasureResult) -> tuple[str, str]:
    """The kind of a failure in words, and its message; the message is empty when the result comes from a log."""
    kind = MeasureErrorNo(result.error_no).name.lower().replace("_", " ").replace(" error", "")
    if len(result.costs) < 2:
        return kind, ""
    trace, error = result.costs
    while isinstance(error, tuple):  # the builder's errors are wrapped in a second pair
        error = error[-1]
    text = str(error).strip()
    if not text or text.startswith("Traceback"):  # TVM cuts the reason off at the end of its trace
        text = str(trace).strip()
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    message = lines[-1] if lines else type(error).__name__
    if "code == RPCCode::kReturn" in message:
        message = "the session ended without an answer: the kernel crashed, or took longer than the runner's timeout"
    if isinstance(error, TimeoutError):
        message = f"longer than the {'builder' if result.error_no == MeasureErrorNo.BUILD_TIMEOUT else 'runner'}'s timeout"
    return kind, message[:300]
