"""OpEvo as one of MetaSchedule's search strategies."""

from __future__ import annotations

import logging
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

from tvm.ir import IRModule
from tvm.ir.utils import derived_object
from tvm.s_tir.meta_schedule import TuneContext
from tvm.s_tir.meta_schedule.database import Database
from tvm.s_tir.meta_schedule.runner import RunnerResult
from tvm.s_tir.meta_schedule.search_strategy import MeasureCandidate, PySearchStrategy
from tvm.s_tir.schedule import Schedule
from tvm.target import Target

from autotvm_opevo._utils.text import last_line
from autotvm_opevo._utils.validation import as_integer
from autotvm_opevo.meta_schedule.database import fitness, records_of
from autotvm_opevo.meta_schedule.space import DecisionSpace
from autotvm_opevo.search.opevo import OpEvo
from autotvm_opevo.search.space import Configuration, Space

logger = logging.getLogger("tvm.s_tir.meta_schedule.opevo")

# So many configurations in a row may bring no candidate before a batch is left as short as it is, and, where it would be empty,
# before the task is given up.
_PATIENCE, _LAST_RESORT = 64, 512


@derived_object
class OpEvoStrategy(PySearchStrategy):
    """Search with OpEvo (Algorithm 1) where MetaSchedule's own strategy would: no cost model, nothing measured twice.

    Pass an instance as ``strategy=`` to ``tune_tir``, ``tune_relax`` or ``extracted_tasks_to_tune_contexts``; builders, runners,
    schedulers and databases are TVM's. Every task gets a search of its own. What the database has of a task, by any strategy,
    counts as its trials, and is learned from where it is of the same sketches; none of it is measured again.

    Parameters
    ----------
    parents_size : int
        lambda: how many configurations may have children.
    offspring_size : int
        rho: how many children are made from one set of parents.
    mutation_rate : float
        q, 0 < q < 1: near 0 exploits what is good, near 1 explores.
    surrogate : {"gp", None}
        What chooses among the children: nothing, which is OpEvo as published, or a Gaussian process whose kernel counts
        steps on the knobs' graphs; see `OpEvo`.
    batch_size : int
        So many candidates at most are measured before the search learns from them; ``num_trials_per_iter`` limits it further.
        Fewer are more sample-efficient, more keep more builders busy.
    seed : int, optional
        The same seed and the same measurements give the same proposals. None takes the task's own ``rand_state``, which
        ``tune_tir(seed=...)`` sets.

    Raises
    ------
    ValueError
        If an argument is not what it should be.

    Examples
    --------
    >>> from tvm.s_tir import meta_schedule as ms
    >>> strategy = OpEvoStrategy(seed=0)
    >>> database = ms.tune_tir(mod, target, work_dir, max_trials_global=64, strategy=strategy)  # doctest: +SKIP
    """

    def __init__(
        self,
        *,
        parents_size: int = 8,
        offspring_size: int = 8,
        mutation_rate: float = 0.5,
        surrogate: str | None = "gp",
        batch_size: int = 8,
        seed: int | None = None,
    ) -> None:
        super().__init__()
        self._parameters = (parents_size, offspring_size, mutation_rate)
        self._surrogate, self._seed = surrogate, seed
        self._batch_size = as_integer("batch_size", batch_size)
        OpEvo(Space({}), *self._parameters, seed, surrogate)  # refuses what is wrong now, and not in the middle of a tuning
        self._tuning: _TaskSearch | None = None
        self._shared: list[int] = []  # the trials left to this and all its clones, if they are to share some

    @property
    def description(self) -> str:
        """What journals call it."""
        surrogate = "" if self._surrogate is None else f" surrogate={self._surrogate!r}"
        return f"OpEvo{surrogate}" + ("" if self._seed is None else f", seed {self._seed}")

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
        decisions = DecisionSpace(self._mod, design_spaces, self._postprocs)
        seed = self._rand_state if self._seed is None else self._seed
        search = OpEvo(decisions.space, *self._parameters, seed, self._surrogate)
        self._tuning = _TaskSearch(self._name, decisions, search, max_trials, min(self._batch_size, num_trials_per_iter))
        if database is not None:
            self._tuning.load(records_of(database, self._mod, self._target))

    def generate_measure_candidates(self) -> list[MeasureCandidate] | None:
        """The next batch; None when the task is done: its trials are spent, or its space has no more."""
        assert self._tuning is not None, "pre_tuning comes first"
        batch = self._tuning.next_batch(min(self._shared, default=sys.maxsize))
        self._shared[:] = [left - len(batch) for left in self._shared]
        return batch or None

    def notify_runner_results(self, measure_candidates: list[MeasureCandidate], results: list[RunnerResult]) -> None:
        """Take the results of the batch."""
        assert self._tuning is not None, "pre_tuning comes first"
        self._tuning.take([fitness(result.run_secs) for result in results])
        errors = Counter(last_line(result.error_msg) for result in results if result.error_msg)
        if errors.total() == len(results):
            logger.warning("%s: all %d candidates failed, mostly: %s", self._name, len(results), errors.most_common(1)[0][0])

    def post_tuning(self) -> None:
        """Called by TVM after a task's last trial."""
        self._tuning = None

    def clone(self) -> Any:
        """The same strategy for another task."""
        parents_size, offspring_size, mutation_rate = self._parameters
        strategy = OpEvoStrategy(
            parents_size=parents_size,
            offspring_size=offspring_size,
            mutation_rate=mutation_rate,
            surrogate=self._surrogate,
            batch_size=self._batch_size,
            seed=self._seed,
        )
        strategy._shared = self._shared
        return strategy

    def share(self, trials: int) -> Any:
        """The same strategy, which with all its clones proposes so many candidates at most: TVM may ask for more at the end."""
        strategy = self.clone()
        strategy._shared = [trials]
        return strategy


class _TaskSearch:
    """One task while it is tuned: between a search, which thinks in configurations, and TVM, which measures candidates.

    Several configurations can be one candidate, which is called by the one that its trace says. That one alone is measured and
    told: told under all its names, a good one would be all the parents.

    Parameters
    ----------
    name : str
        The task's, for the log.
    decisions : DecisionSpace
    search : OpEvo
    trials : int
        How many candidates to measure, those that are loaded included.
    batch_size : int
    """

    def __init__(self, name: str, decisions: DecisionSpace, search: OpEvo, trials: int, batch_size: int) -> None:
        self._name, self._decisions, self._search = name, decisions, search
        self._left, self._batch_size = trials, batch_size
        self._known: dict[int, float] = {}  # fitness by a candidate's number in the space; 0 of what was rejected
        self._pending: list[int] = []  # of the batch that is being measured
        self._started = False

    def load(self, records: Sequence[Any]) -> None:
        """Take records of this task as if they had been measured now."""
        unread = 0
        for record in reversed(records):  # the best last: of a candidate that was measured twice, it counts
            self._left -= 1
            try:
                configuration = self._decisions.configuration(record.trace)
            except ValueError:
                unread += 1
                continue
            self._learn(self._number(configuration), fitness(record.run_secs))
        if records:
            logger.info("%s: took %d records from the database, %d of other sketches", self._name, len(records) - unread, unread)

    def next_batch(self, most: int) -> list[MeasureCandidate]:
        """New candidates that all postprocessors accept."""
        batch: list[MeasureCandidate] = []
        size = min(self._batch_size, self._left, most)
        fruitless = 0
        while len(batch) < size and fruitless < (_PATIENCE if batch else _LAST_RESORT):
            if fruitless >= _PATIENCE and not self._started and not self._search.best:
                self._start(batch, size)
                fruitless = 0
            asked = self._search.ask(size - len(batch))
            if not asked:
                break
            for configuration in asked:
                fruitless = 0 if self._consider(configuration, batch) else fruitless + 1
        if size > 0 and not batch:
            logger.warning("%s: no more candidates, %d trials are left", self._name, self._left)
        self._left -= len(batch)
        return batch

    def take(self, fitnesses: Sequence[float]) -> None:
        """The results of the last batch, in its order."""
        for number, result in zip(self._pending, fitnesses, strict=True):
            self._learn(number, result)
        self._pending = []

    def _consider(self, configuration: Configuration, batch: list[MeasureCandidate]) -> bool:
        """Put a configuration's candidate into the batch, if it is one and new; whether it is."""
        asked = self._decisions.canonicalize(configuration)
        number = self._number(asked)
        candidate = None
        if number not in self._known and number not in self._pending:
            candidate, effective = self._decisions.candidate(asked)
            if candidate is None:
                self._known[number] = 0.0
            else:
                number = self._number(effective)
        if candidate is None or number in self._known or number in self._pending:
            if self._known.get(number) == 0.0:
                self._search.tell([configuration], [0.0])
            else:
                self._search.discard([configuration])
            return False
        if number != self._number(configuration):
            self._search.discard([configuration])
        self._pending.append(number)
        batch.append(candidate)
        return True

    def _start(self, batch: list[MeasureCandidate], size: int) -> None:
        """Begin with a simple configuration of each sketch where random ones are all rejected.

        They are parents at once, before their results, so that the rest of the batch can be their children.
        """
        self._started = True
        for configurations in self._decisions.seed_configurations():
            if len(batch) < size and any(self._consider(configuration, batch) for configuration in configurations):
                self._search.tell([self._decisions.space[self._pending[-1]]], [1.0])

    def _learn(self, number: int, result: float) -> None:
        self._known[number] = result
        self._search.tell([self._decisions.space[number]], [result])

    def _number(self, configuration: Configuration) -> int:
        return self._decisions.space.index(configuration)
