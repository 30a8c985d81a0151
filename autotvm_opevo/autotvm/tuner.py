"""OpEvo, and any other `Search`, as one of AutoTVM's tuners."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterable, Sequence
from os import PathLike
from typing import Any

from tvm.autotvm.measure import MeasureInput, MeasureResult
from tvm.autotvm.task import Task
from tvm.autotvm.task.space import ConfigEntity
from tvm.autotvm.tuner import Tuner

from autotvm_opevo.autotvm.log import configuration_of, fitness
from autotvm_opevo.autotvm.space import KnobSpace
from autotvm_opevo.search.base import Search
from autotvm_opevo.search.opevo import OpEvo
from autotvm_opevo.search.space import Space

logger = logging.getLogger("autotvm")

# What only XGBTuner knows: scripts that name these keep working when the class is replaced.
_XGB_ONLY = frozenset(
    ["plan_size", "feature_type", "loss_type", "num_threads", "optimizer", "diversity_filter_ratio", "log_interval"]
)


class SearchTuner(Tuner):
    """A `Search` as one of AutoTVM's tuners; ``tune``, callbacks, builders and runners are AutoTVM's.

    Parameters
    ----------
    task : tvm.autotvm.task.Task
        What to tune.
    make_search : callable
        Makes the search of the task's `Space`.
    **ignored
        Options of XGBTuner that have no meaning here, ignored with a line on the ``autotvm`` logger.

    Attributes
    ----------
    seed : int
        The one given, or the one drawn.

    Raises
    ------
    TypeError
        If an option is not XGBTuner's.
    ValueError
        If an argument is not what it should be.
    """

    best_flops: float  # of the base class, whose loop keeps it

    def __init__(self, task: Task, make_search: Callable[[Space], Search], **ignored: Any) -> None:
        name = type(self).__name__
        unknown = sorted(ignored.keys() - _XGB_ONLY)
        if unknown:
            own = [option for option in inspect.signature(type(self)).parameters if option not in ("task", "xgb_only")]
            allowed = f"{', '.join(own[:-1])} and {own[-1]}"
            raise TypeError(f"{name} got unknown options {unknown}; it has {allowed}, and ignores those of XGBTuner")
        if ignored:
            logger.warning("%s ignores the options of XGBTuner %s.", name, sorted(ignored))
        if getattr(task, "config_space", None) is None:
            raise ValueError(f"task must be one that autotvm.task.create or extract_from_program made, {task!r} given")
        super().__init__(task)
        self._knobs = KnobSpace(task.config_space)
        self._search = make_search(self._knobs.space)
        self.seed = self._search.seed

    def has_next(self) -> bool:
        """Whether there is a configuration that was neither proposed nor loaded."""
        return self._search.has_next()

    def next_batch(self, batch_size: int) -> list[ConfigEntity]:
        """Up to `batch_size` new configurations; none only when there are no more."""
        return [self._knobs.config_entity(configuration) for configuration in self._search.ask(batch_size)]

    def update(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        """Take measurements: of proposals, or of any other configurations of this task's space.

        Raises
        ------
        ValueError
            If a configuration is not of this task's space.
        """
        configurations = [self._knobs.configuration(measured.config) for measured in inputs]
        self._search.tell(configurations, list(map(fitness, results)))

    def load_history(self, data_set: Iterable[tuple[MeasureInput, MeasureResult]], min_seed_records: int = 500) -> None:
        """Take the records of this task, from any tuner, as if they had been measured now.

        None of them is measured again, the best are parents at once, and the very best is ``best_config`` until a better one
        is found. Records of other tasks, targets or configuration spaces are skipped, with their count on the ``autotvm`` logger:
        nothing is learned from one task for another.

        Parameters
        ----------
        data_set : iterable of (MeasureInput, MeasureResult)
            As ``autotvm.record.load_from_file`` yields them.
        min_seed_records : int
            AutoTVM's argument; one record is enough here.

        Raises
        ------
        TypeError
            If `data_set` is a file's name instead of its records.
        """
        if isinstance(data_set, (str, bytes, PathLike)):
            raise TypeError(f"data_set must be records: autotvm.record.load_from_file({data_set!r}) reads those of a file")
        configurations, fitnesses, skipped = [], [], 0
        for measured, result in data_set:
            configuration = configuration_of(measured, self.task, self._knobs)
            if configuration is None:
                skipped += 1
                continue
            configurations.append(configuration)
            fitnesses.append(fitness(result))
            flops = (self.task.flop or 0) * fitnesses[-1]
            if flops > self.best_flops:
                self.best_flops = flops
                self.best_config = measured.config
                self.best_measure_pair = (measured, result)
        self._search.tell(configurations, fitnesses)
        if skipped:
            logger.warning(
                "%s took %d records and skipped %d of another task, target or configuration space.",
                type(self).__name__,
                len(configurations),
                skipped,
            )


class OpEvoTuner(SearchTuner):
    """Tune an AutoTVM task with OpEvo (Algorithm 1): no features, nothing to train beforehand, nothing measured twice.

    Takes the place of ``autotvm.tuner.XGBTuner`` as it stands; ``tune``, callbacks, builders and runners are AutoTVM's.

    Parameters
    ----------
    task : tvm.autotvm.task.Task
        What to tune.
    parents_size : int
        lambda: how many configurations may have children.
    offspring_size : int
        rho: how many children are made from one set of parents.
    mutation_rate : float
        q, 0 < q < 1: near 0 exploits what is good, near 1 explores.
    surrogate : {"gp", None}
        What chooses among the children: nothing, which is OpEvo as published, or a Gaussian process whose kernel counts
        steps on the knobs' graphs; see `OpEvo`.
    seed : int, optional
        The same seed and the same measurements give the same proposals. None draws one.
    **xgb_only
        Options of XGBTuner that have no meaning here, ignored with a line on the ``autotvm`` logger.

    Attributes
    ----------
    seed : int
        The one given, or the one drawn.

    Raises
    ------
    TypeError
        If an option is neither this tuner's nor XGBTuner's.
    ValueError
        If an argument is not what it should be.

    Examples
    --------
    >>> from tvm import autotvm, te
    >>> from autotvm_opevo import OpEvoTuner
    >>> tensors = te.placeholder((64, 64)), te.placeholder((64, 64))
    >>> task = autotvm.task.create("dense_nopack.x86", args=(*tensors, None, "float32"), target="llvm")
    >>> tuner = OpEvoTuner(task, seed=0)
    >>> len(tuner.next_batch(8))
    8
    """

    def __init__(
        self,
        task: Task,
        *,
        parents_size: int = 8,
        offspring_size: int = 8,
        mutation_rate: float = 0.5,
        surrogate: str | None = "gp",
        seed: int | None = None,
        **xgb_only: Any,
    ) -> None:
        def search(space: Space) -> OpEvo:
            return OpEvo(space, parents_size, offspring_size, mutation_rate, seed, surrogate)

        super().__init__(task, search, **xgb_only)
