"""OpEvo as a MetaSchedule search strategy."""

from __future__ import annotations

import inspect
import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any
from weakref import ref
from zlib import crc32

import numpy as np
from tvm.ir import IRModule
from tvm.ir.utils import derived_object
from tvm.s_tir.meta_schedule import TuneContext
from tvm.s_tir.meta_schedule.database import Database
from tvm.s_tir.meta_schedule.runner import RunnerResult
from tvm.s_tir.meta_schedule.search_strategy import MeasureCandidate, PySearchStrategy
from tvm.s_tir.schedule import Schedule
from tvm.target import Target
from tvm.target.codegen import target_has_features

from autotvm_opevo._utils.text import describe, last_line
from autotvm_opevo._utils.validation import as_integer, as_paths
from autotvm_opevo.meta_schedule.database import fitness, records_of
from autotvm_opevo.meta_schedule.history import describe_history, read_history
from autotvm_opevo.meta_schedule.space import DecisionSpace
from autotvm_opevo.meta_schedule.task_search import TaskSearch
from autotvm_opevo.search.opevo import OpEvo
from autotvm_opevo.search.space import Space
from autotvm_opevo.search.transfer import Source
from autotvm_opevo.tuning.prior import read_prior

logger = logging.getLogger("tvm.s_tir.meta_schedule.opevo")


@derived_object
class OpEvoStrategy(PySearchStrategy):
    """Search with OpEvo (Algorithm 1), guided by a Gaussian process, in place of MetaSchedule's own
    strategies.

    Pass an instance as ``strategy=`` to ``tune_tir``, ``tune_relax`` or
    ``extracted_tasks_to_tune_contexts``; builders, runners, task schedulers and databases are
    TVM's, and no cost model is needed. Each task has a search of its own. Records of a task in the
    database, from any strategy, count as its trials; those of the same sketches inform the search,
    and no candidate is measured twice.

    Parameters
    ----------
    parents_size, offspring_size, mutation_rate, surrogate
        See `OpEvo`.
    transfer : bool
        Whether tasks whose sketches have the same structure learn from each other, on a CPU also
        from the bundled tuning records; see `OpEvo.learn_from`. Needs
        ``surrogate="gp"``.
    history : path, or iterable of paths
        Work directories of other networks, devices and runs to learn from; needs ``transfer``.
    batch_size : int
        Maximum number of candidates measured before the search learns from them;
        ``num_trials_per_iter`` is a limit, too. Smaller batches need fewer trials, larger ones keep
        more builders busy.
    seed : int, optional
        Makes proposals reproducible, given the same measurements; tasks of different names get
        different random numbers. By default the task's own ``rand_state``, which
        ``tune_tir(seed=...)`` sets.

    Attributes
    ----------
    can_transfer : bool
        Whether tasks learn from each other and from histories.
    history : list of Source
        What was read, one source for each workload and target.

    Raises
    ------
    ValueError
        If an argument is invalid, or a path of the history has no database with a record.

    Examples
    --------
    >>> from tvm.s_tir import meta_schedule as ms
    >>> strategy = OpEvoStrategy(seed=0)
    >>> database = ms.tune_tir(  # doctest: +SKIP
    ...     mod, target, work_dir, max_trials_global=64, strategy=strategy
    ... )
    """

    def __init__(
        self,
        *,
        parents_size: int = 8,
        offspring_size: int = 8,
        mutation_rate: float = 0.5,
        surrogate: str | None = "gp",
        transfer: bool = True,
        history: str | PathLike[str] | Iterable[str | PathLike[str]] = (),
        batch_size: int = 8,
        seed: int | None = None,
    ) -> None:
        super().__init__()
        self._options: dict[str, Any] = {
            "parents_size": parents_size,
            "offspring_size": offspring_size,
            "mutation_rate": mutation_rate,
            "surrogate": surrogate,
        }
        self.batch_size, self._seed = as_integer("batch_size", batch_size), seed
        self._given = {**self._options, "transfer": transfer, "batch_size": batch_size}
        OpEvo(Space({}), seed=seed, **self._options)  # raises on invalid options before any tuning
        self._task_search: TaskSearch | None = None
        self.can_transfer = transfer and surrogate == "gp"
        # Shared by all clones. Weak: TVM calls no `post_tuning` after an error.
        self._searches: list[ref[TaskSearch]] = []
        paths = as_paths(history)
        if paths and not self.can_transfer:
            raise ValueError(
                'history needs transfer=True and surrogate="gp": without them, nothing is '
                "learned from it"
            )
        self.history = read_history(paths) if paths else []
        self._left = self._per_round = 0  # trials, of the task and of a batch
        self._batch: list[MeasureCandidate] = []  # is being measured

    @property
    def description(self) -> str:
        """Name in a run log: the options that are not the defaults, and the seed.

        >>> OpEvoStrategy(seed=0).description, OpEvoStrategy(surrogate=None).description
        ('OpEvo, seed 0', 'OpEvo surrogate=None')
        """
        defaults = inspect.signature(OpEvoStrategy).parameters
        options = {
            name: value for name, value in self._given.items() if value != defaults[name].default
        }
        if self.history:
            options["history"] = describe_history(self.history)
        return describe("OpEvo", options, self._seed)

    def _initialize_with_tune_context(self, context: TuneContext) -> None:
        # Not the context itself, which holds this strategy: neither would ever be freed.
        self._mod: IRModule = context.mod
        self._target: Target = context.target
        self._postprocs = list(context.space_generator.postprocs)
        self._name = str(context.task_name)
        self._rand_state = int(context.rand_state)

    def pre_tuning(
        self,
        max_trials: int,
        num_trials_per_iter: int,
        design_spaces: list[Schedule],
        database: Database | None = None,
        cost_model: object = None,
    ) -> None:
        """Called by TVM before a task's first trial."""
        records = [] if database is None else records_of(database, self._mod, self._target)
        task = self._name, self._mod, design_spaces, self._postprocs, self._rand_state
        self._task_search = search = self.search(*task)
        search.load(records)
        self._left = max_trials - len(records)
        self._per_round = min(self.batch_size, num_trials_per_iter)
        self._searches.append(ref(search))

    def search(
        self,
        name: str,
        mod: IRModule,
        sketches: list[Schedule],
        postprocs: list[Any],
        rand_state: int,
    ) -> TaskSearch:
        """The search of a task, with this strategy's options and a seed of its own."""
        decisions = DecisionSpace(mod, sketches, postprocs)
        seed = rand_state
        if self._seed is not None:
            entropy = np.random.SeedSequence([self._seed, crc32(name.encode())])
            seed = int(entropy.generate_state(1)[0])
        return TaskSearch(name, decisions, OpEvo(decisions.space, seed=seed, **self._options))

    def generate_measure_candidates(self) -> list[MeasureCandidate] | None:
        """The next batch; None when the task's trials are spent, or its space is exhausted."""
        search = self._task_search
        assert search is not None, "pre_tuning comes first"
        if self.can_transfer:
            searches = [other for known in self._searches if (other := known())]
            others = [other.source for other in searches if other is not search]
            self.warm_start(search, self._target, others)
        size = min(self._per_round, self._left)
        self._batch = search.propose(size) if size > 0 else []
        self._left -= len(self._batch)
        return self._batch or None

    def warm_start(self, search: TaskSearch, target: Target, others: Iterable[Source]) -> set[str]:
        """Let a task's search learn from other tasks of this run that have a success, from the
        history, and from what this package knows of its target; returns the origins of what is
        used.
        """
        taught = [source for source in others if any(source.results.values())]
        used = search.learn_from([*taught, *self.history, *prior(target)])
        return {source.origin for source in used}

    def notify_runner_results(
        self, measure_candidates: list[MeasureCandidate], results: list[RunnerResult]
    ) -> None:
        """Take the results of the batch."""
        assert self._task_search is not None, "pre_tuning comes first"
        self._task_search.tell(self._batch, [fitness(result.run_secs) for result in results])
        errors = Counter(last_line(result.error_msg) for result in results if result.error_msg)
        if errors.total() == len(results):
            mostly = errors.most_common(1)[0][0]
            logger.warning(
                "%s: all %d candidates failed, mostly: %s", self._name, len(results), mostly
            )

    def post_tuning(self) -> None:
        """Called by TVM after a task's last trial."""
        self._task_search = None

    def clone(self) -> Any:
        """The same strategy, for another task."""
        strategy = OpEvoStrategy(**self._given, seed=self._seed)
        strategy._searches, strategy.history = self._searches, self.history
        return strategy

    def with_history(self, history: list[Source]) -> Any:
        """The same strategy with another history."""
        strategy = self.clone()
        strategy.history = history
        return strategy


def prior(target: Target) -> Sequence[Source]:
    """The sources that come with this package for a CPU, with knobs by role."""
    return read_prior(prior_file(target))[""] if target.kind.name == "llvm" else ()


def prior_file(target: Target) -> Path:
    """The file for a CPU: what is best depends on how many values a vector has, and on the number
    of registers. AVX2's is the nearest to narrower vectors.
    """
    wide = target_has_features("avx512f", target)
    return Path(__file__).with_name("avx512_prior.json" if wide else "avx2_prior.json")
