"""OpEvo, and any other `Search`, as AutoTVM tuners."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from os import PathLike
from typing import Any

from tvm import autotvm
from tvm.autotvm.measure import MeasureInput, MeasureResult
from tvm.autotvm.task import Task
from tvm.autotvm.task.space import ConfigEntity
from tvm.autotvm.tuner import Tuner, XGBTuner

from autotvm_opevo._utils.text import describe, milliseconds
from autotvm_opevo.autotvm.history import History, is_cpu, prior
from autotvm_opevo.autotvm.log import Record, fitness, key_of
from autotvm_opevo.autotvm.space import KnobSpace
from autotvm_opevo.search.base import Search, batch_limit
from autotvm_opevo.search.opevo import OpEvo
from autotvm_opevo.search.space import Space
from autotvm_opevo.search.transfer import Source

# A tuner class of AutoTVM, or any function from a task to a tuner.
TunerFactory = Callable[..., Tuner]

logger = logging.getLogger("autotvm")

# Options of XGBTuner alone, accepted so that scripts keep working when only the class is replaced.
_XGB_ONLY = inspect.signature(XGBTuner).parameters.keys() - {"task"}

_warned: set[str] = set()


def _warn_once(topic: str, message: str, *values: object) -> None:
    """Warn once per process and log repetitions at level INFO: scripts make a tuner for each of a
    network's tasks.
    """
    logger.log(logging.INFO if topic in _warned else logging.WARNING, message, *values)
    _warned.add(topic)


class SearchTuner(Tuner):
    """A `Search` as an AutoTVM tuner; callbacks, builders and runners are AutoTVM's. See
    `OpEvoTuner` for what is not described here.

    Parameters
    ----------
    task : tvm.autotvm.task.Task
    make_search : callable
        Makes the search from the task's `Space`.
    **xgb_only

    Attributes
    ----------
    transfer : bool
        Whether to learn from other tasks, if the search can: those of loaded records, and on a CPU
        the bundled tuning records. Can be set until records are loaded, or the first
        batch is proposed.
    proposes_ahead : bool
        Whether it can propose while others are measured.
    """

    best_flops: float  # maintained by the base class

    def __init__(self, task: Task, make_search: Callable[[Space], Search], **xgb_only: Any) -> None:
        name = type(self).__name__
        unknown = sorted(xgb_only.keys() - _XGB_ONLY)
        if unknown:
            parameters = inspect.signature(type(self)).parameters.values()
            own = ", ".join(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)
            raise TypeError(
                f"{name} got unknown options {unknown}: its options are {own}; those of XGBTuner "
                "are ignored"
            )
        if xgb_only:
            _warn_once(
                f"{name} options", "%s ignores the options of XGBTuner %s.", name, sorted(xgb_only)
            )
        if getattr(task, "config_space", None) is None:
            raise ValueError(
                f"task must be made by autotvm.task.create or extract_from_program, {task!r} given"
            )
        super().__init__(task)
        self._knobs = KnobSpace(task.config_space)
        self._search = make_search(self._knobs.space)
        # a search by generations needs the results of one for the next
        self.seed, self.proposes_ahead = self._search.seed, not self._search.generational
        self.best_loaded: Record | None = None
        self.transfer = True
        self._history = History()  # of other tasks, loaded
        self._others: list[Source] | None = None  # of other tasks, given

    def tune(
        self,
        n_trial: int,
        measure_option: dict[str, Any],
        early_stopping: int | None = None,
        callbacks: Iterable[Callable[..., object]] = (),
        si_prefix: str = "G",
    ) -> None:
        """Measure up to `n_trial` new configurations; the parameters are those of AutoTVM's tuners.

        Stops early when the search space is exhausted. Loaded records are not measured again, so
        callbacks, such as the one that writes the log, never see them. If the space is exhausted,
        or no trial beat the loaded records, a warning on the ``autotvm`` logger names the best
        configuration.
        """
        if n_trial < 1:
            return
        self.ttl = n_trial  # remaining trials; the base class updates it after each batch
        # with nothing to measure, the base class would report that it found no valid schedule
        if self.has_next():
            try:
                super().tune(n_trial, measure_option, early_stopping, callbacks, si_prefix)
            finally:
                # also after Ctrl-C: some templates leave out of a network what they do not time
                autotvm.GLOBAL_SCOPE.in_tuning = False
        loaded_is_best = self.best_loaded is not None and self.best_measure_pair is self.best_loaded
        if self.ttl > 0 or loaded_is_best:
            logger.warning(
                "%s: %s for %s. %s%s.",
                type(self).__name__,
                "search space exhausted" if self.ttl > 0 else "no trial beat the loaded records",
                self.task.name,
                self._describe_best(),
                "; loaded, and not logged again" if loaded_is_best else "",
            )

    def _describe_best(self) -> str:
        """One clause on the best known configuration."""
        if self._search.best is None:
            return "No known configuration is valid"
        configuration, runs_per_second = self._search.best
        gflops = (self.task.flop or 0) * runs_per_second / 1e9
        speed = f"{milliseconds(1 / runs_per_second)} ms" + (
            f", {gflops:.2f} GFLOPS" if gflops else ""
        )
        return f"Best configuration: {speed}, {self._knobs.config_entity(configuration)}"

    def has_next(self) -> bool:
        """Whether a configuration is left that was neither proposed nor loaded."""
        self._learn_prior()  # before the search proposes anything
        return self._search.has_next()

    def next_batch(self, batch_size: int) -> list[ConfigEntity]:
        """Propose up to `batch_size` new configurations; empty only when the space is exhausted.

        With a surrogate, at most 8 at first, and later a quarter of the results there are.
        """
        self._learn_prior()
        asked = self._search.ask(self.batch_size(batch_size))
        return [self._knobs.config_entity(configuration) for configuration in asked]

    def batch_size(self, most: int) -> int:
        """How many to propose, of `most` that are asked for; subclasses may propose other batches
        than `next_batch` says.
        """
        if not self.has_surrogate:
            return most
        return min(most, batch_limit(len(self._search.results)))

    def _learn_prior(self) -> None:
        """Learn from the bundled tuning records, if nothing has been learned yet."""
        if self._others is None and self.can_transfer and prior(self.task):
            self.learn_from([])

    def update(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        """Add measurements, of proposals or of any other configurations of this task's space.

        Raises
        ------
        ValueError
            If a configuration is not in this task's space.
        """
        configurations = [self._knobs.configuration(measured.config) for measured in inputs]
        self._search.tell(configurations, list(map(fitness, results)))

    def load_history(
        self, data_set: Iterable[tuple[MeasureInput, MeasureResult]], min_seed_records: int = 500
    ) -> None:
        """Add records from any tuner: of this task as if they had been measured now, of others as
        knowledge.

        This task's are not measured again, the best become parents at once, and the very best is
        ``best_config`` until a better one is found. Those of the same template for other shapes,
        targets or devices make the search start from what was good there, see `OpEvo.learn_from`.
        Others are skipped, with a warning once per process: those of other templates, and those of
        GPUs on a CPU or of CPUs elsewhere.

        Parameters
        ----------
        data_set : iterable of (MeasureInput, MeasureResult)
            For example from ``autotvm.record.load_from_file``.
        min_seed_records : int
            For compatibility with AutoTVM; ignored, any number of records helps.

        Raises
        ------
        TypeError
            If `data_set` is a file name instead of records.
        """
        if isinstance(data_set, (str, bytes, PathLike)):
            raise TypeError(
                "data_set must be records, a file name given: pass "
                f"autotvm.record.load_from_file({data_set!r})"
            )
        configurations, fitnesses, others, skipped = [], [], 0, 0
        own_key, transfers = key_of(self.task.target, self.task), self.can_transfer
        for measured, result in data_set:
            if key_of(measured.target, measured.task) == own_key:
                try:
                    configurations.append(self._knobs.configuration(measured.config))
                except ValueError:  # of another space
                    skipped += 1
                    continue
                fitnesses.append(fitness(result))
                flops = (self.task.flop or 0) * fitnesses[-1]
                if flops > self.best_flops:
                    self.best_flops = flops
                    self.best_config = measured.config
                    self.best_measure_pair = self.best_loaded = (measured, result)
            elif (
                transfers
                and measured.task.name == self.task.name
                and is_cpu(measured.target) == is_cpu(self.task.target)
            ):
                self._history.add([(measured, result)])  # at once: there may be 100,000
                others += 1
            else:
                skipped += 1
        self._search.tell(configurations, fitnesses)
        if others:
            used = self.learn_from(self._others or [])
            logger.info(
                "%s for %s learns from other tasks of this template: %d, with %d records.",
                type(self).__name__,
                self.task.name,
                len(used),
                sum(len(source.results) for source in used),
            )
        if skipped:
            _warn_once(
                f"{type(self).__name__} skipped",
                "%s loaded %d records and skipped %d of other tasks, spaces or devices.",
                type(self).__name__,
                len(configurations),
                skipped,
            )

    @property
    def has_surrogate(self) -> bool:
        """Whether the search has one."""
        return self._search.can_transfer

    @property
    def can_transfer(self) -> bool:
        """Whether to learn from other tasks, as OpEvo with its surrogate can."""
        return self.transfer and self.has_surrogate

    def as_source(self) -> Source:
        """This tuner's results, present and future, for the tuner of another task."""
        return Source(self._search.space, self._search.results)

    def learn_from(self, sources: Sequence[Source]) -> list[Source]:
        """Take results of other tasks into account, beside those loaded, in place of those given
        before; see `OpEvo`.
        """
        self._others = list(sources)
        if not self.can_transfer:
            return []
        return self._search.learn_from(
            [
                *self._history.sources(self.task.name, self.task.target),
                *self._others,
                *prior(self.task),
            ]
        )


class OpEvoTuner(SearchTuner):
    """Tune an AutoTVM task with OpEvo (Algorithm 1): no feature extraction, no pre-training, no
    repeated measurement.

    A drop-in replacement for ``autotvm.tuner.XGBTuner``; callbacks, builders and runners are
    AutoTVM's.

    Parameters
    ----------
    task : tvm.autotvm.task.Task
        Task to tune.
    plan_size : int, optional
        XGBTuner's second positional parameter; ignored with a warning, once per process.
    parents_size : int
        lambda: number of configurations that reproduce.
    offspring_size : int
        rho: number of children per generation.
    mutation_rate : float
        q, 0 < q < 1: near 0 exploits good configurations, near 1 explores.
    surrogate : {"gp", None}
        A Gaussian process that selects among the children, or None for OpEvo as published; see
        `OpEvo`.
    transfer : bool
        Whether to learn from other tasks of the same template: those of records that `load_history`
        gets, and on a CPU the bundled tuning records. Needs ``surrogate="gp"``.
    seed : int, optional
        The same seed and the same measurements give the same proposals. Drawn at random by default.
    **xgb_only
        Options of XGBTuner that do not apply; ignored with a warning, once per process.

    Attributes
    ----------
    seed : int
        As given, or drawn at random.
    best_loaded : (MeasureInput, MeasureResult) or None
        Fastest record that `load_history` took.

    Raises
    ------
    TypeError
        If an option is unknown to both this tuner and XGBTuner.
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> from tvm import autotvm, te
    >>> from autotvm_opevo import OpEvoTuner
    >>> tensors = te.placeholder((64, 64)), te.placeholder((64, 64))
    >>> task = autotvm.task.create("dense_nopack.x86", (*tensors, None, "float32"), "llvm")
    >>> tuner = OpEvoTuner(task, seed=0)
    >>> len(tuner.next_batch(8))
    8
    """

    def __init__(
        self,
        task: Task,
        plan_size: int | None = None,
        *,
        parents_size: int = 8,
        offspring_size: int = 8,
        mutation_rate: float = 0.5,
        surrogate: str | None = "gp",
        transfer: bool = True,
        seed: int | None = None,
        **xgb_only: Any,
    ) -> None:
        options = parents_size, offspring_size, mutation_rate, seed, surrogate
        if plan_size is not None:
            xgb_only["plan_size"] = plan_size
        super().__init__(task, lambda space: OpEvo(space, *options), **xgb_only)
        self.transfer = transfer


def describe_tuner(make_tuner: partial[Tuner], seed: int | None, **others: Any) -> str:
    """Name its tuners with their options, others that they get, and the seed.

    >>> describe_tuner(partial(OpEvoTuner, surrogate=None), 0)
    'OpEvoTuner surrogate=None, seed 0'
    >>> describe_tuner(partial(OpEvoTuner), None, transfer=False)
    'OpEvoTuner transfer=False'
    """
    name = getattr(make_tuner.func, "__name__", type(make_tuner.func).__name__)
    return describe(name, {**make_tuner.keywords, **others}, seed)
