"""The search of one task: between OpEvo, which proposes configurations, and TVM, which measures
candidates.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice, zip_longest
from typing import Any

from tvm.s_tir.meta_schedule.search_strategy import MeasureCandidate

from autotvm_opevo.meta_schedule.database import fitness
from autotvm_opevo.meta_schedule.space import DecisionSpace
from autotvm_opevo.search.opevo import OpEvo
from autotvm_opevo.search.space import Configuration
from autotvm_opevo.search.transfer import Source

logger = logging.getLogger("tvm.s_tir.meta_schedule.opevo")

# Maximum number of consecutive configurations without a new candidate, before a batch is cut short,
# and before the task is given up if the batch would be empty.
_MAX_MISSES, _MAX_MISSES_EMPTY = 64, 512


class TaskSearch:
    """Turn an OpEvo search's configurations into candidates, and TVM's results into its fitnesses.

    Several configurations can yield the same candidate, which is known by the configuration of its
    trace. Only that one is measured and told: told under all its names, a good candidate would take
    the place of all other parents. The task's name is for log messages.

    Attributes
    ----------
    source : Source
        The results so far, by role.
    """

    def __init__(self, name: str, decisions: DecisionSpace, search: OpEvo) -> None:
        self._name, self._decisions, self._search = name, decisions, search
        self._index = decisions.space.index
        # by a candidate's index in the space; 0 for a rejected one
        self._fitness: dict[int, float] = {}
        self.source = decisions.by_role(self._fitness)
        # by index, what is being measured, oldest first
        self._pending: dict[int, MeasureCandidate] = {}
        # simple configurations of each sketch in turn, once all random ones were rejected
        self._seeds: Iterator[Configuration] | None = None
        # of other tasks, by the identity of their results: asked for before every batch
        self._translated: dict[int, tuple[Source, Source | None]] = {}

    def learn_from(self, others: Iterable[Source]) -> list[Source]:
        """Let the search learn from the results by role of other tasks; those of another structure
        say nothing. Returns the sources that are used.
        """
        sources = []
        for other in others:
            key = id(other.results)
            if key not in self._translated:
                # with the source, which keeps its id
                self._translated[key] = other, self._decisions.translate(other)
            if source := self._translated[key][1]:
                sources.append(source)
        return self._search.learn_from(sources)

    def load(self, records: Sequence[Any]) -> None:
        """Load records of this task, the best first."""
        skipped = 0
        for record in reversed(records):  # of a candidate that was measured twice, the best counts
            try:
                configuration = self._decisions.configuration(record.trace)
            except ValueError:
                skipped += 1
                continue
            self._record(self._index(configuration), fitness(record.run_secs))
        if records:
            counts = len(records) - skipped, skipped
            logger.info(
                "%s: loaded %d records from the database, skipped %d of other sketches or spaces",
                self._name,
                *counts,
            )

    def propose(self, size: int) -> list[MeasureCandidate]:
        """Up to `size` new candidates that pass all postprocessors; none when the search is
        finished.
        """
        batch: list[MeasureCandidate] = []
        misses = 0
        while len(batch) < size and misses < (_MAX_MISSES if batch else _MAX_MISSES_EMPTY):
            if self._seeds is None and misses >= _MAX_MISSES:
                by_sketch = map(list, self._decisions.seed_configurations())
                self._seeds = filter(None, chain.from_iterable(zip_longest(*by_sketch)))
            if self._seeds and not self._search.best:
                self._search.enqueue(list(islice(self._seeds, size - len(batch))))
            asked = self._search.ask(size - len(batch))
            if not asked:
                break
            for configuration in asked:
                misses = 0 if self._try_add(configuration, batch) else misses + 1
        if not batch:
            works = self._pending or any(self._fitness.values())  # or something is wrong
            level = logging.INFO if works else logging.WARNING
            logger.log(level, "%s: no more candidates", self._name)
        return batch

    def tell(self, candidates: Sequence[MeasureCandidate], fitnesses: Sequence[float]) -> None:
        """Take results of candidates that were proposed, in any order."""
        for candidate, result in zip(candidates, fitnesses, strict=True):
            index = next(index for index, pending in self._pending.items() if pending is candidate)
            del self._pending[index]
            self._record(index, result)

    def _try_add(self, configuration: Configuration, batch: list[MeasureCandidate]) -> bool:
        """Add a configuration's candidate to the batch; return False if it has none, or none that
        is new.
        """
        canonical = self._decisions.canonicalize(configuration)
        index = self._index(canonical)
        candidate = None
        if not self._is_known(index):
            candidate, effective = self._decisions.candidate(canonical)
            if candidate is None:
                self._fitness[index] = 0.0
            else:
                index = self._index(effective)
        if candidate is None or self._is_known(index):
            if self._index(configuration) not in self._pending:
                rejected = self._fitness.get(index) == 0.0
                self._search.tell([configuration], [0.0 if rejected else None])
            return False
        if index != self._index(configuration):
            self._search.tell([configuration], [None])
            if effective not in self._search.pending:
                self._search.enqueue([effective])
                self._search.ask()
        self._pending[index] = candidate
        batch.append(candidate)
        return True

    def _record(self, index: int, result: float) -> None:
        self._fitness[index] = result
        self._search.tell([self._decisions.space[index]], [result])

    def _is_known(self, index: int) -> bool:
        return index in self._fitness or index in self._pending
