"""Trials, with the values of their knobs, and the tasks that they belong to. Memory grows by a few
bytes per trial.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import nsmallest
from itertools import repeat
from typing import Any

import numpy as np

from autotvm_opevo._utils.text import printable
from autotvm_opevo.tuning.journal import Confirmation, TrialEnded

Array = np.ndarray[tuple[int], np.dtype[np.float64]]

# The kind of MetaSchedule's failures, which only a journal knows.
UNKNOWN_FAILURE = "failed"
# Number of best configurations that are kept per task.
_TOP = 5
# Number of a knob that a trial does not set.
_NOT_SET = -1


@dataclass(frozen=True)
class Value:
    """A value of a knob.

    Attributes
    ----------
    kind : {"tile", "inner tile", "order", "number", "annotation", "choice"}
        The type of the knob: a factorization, a factorization without its outermost part (which the
        log omits), a permutation, a number, one annotation per loop, or one of several options.
    value : hashable
        The vertex. For an inner tile: the known parts; for an annotation: the tuple of annotations.
    options : tuple
        All options of a choice; empty if unknown.
    innermost : int
        Upper bound of a tile's innermost part; 0 if unknown.
    """

    kind: str
    value: Hashable
    options: tuple[Hashable, ...] = ()
    innermost: int = 0


@dataclass
class ValueStats:
    """Statistics of one value.

    Attributes
    ----------
    trials : int
    best : float
        Lowest latency in seconds; infinite if all trials failed.
    """

    trials: int = 0
    best: float = math.inf

    def merge(self, other: ValueStats) -> None:
        """Add the trials of another log."""
        self.trials += other.trials
        self.best = min(self.best, other.best)


@dataclass
class Knob:
    """A knob and statistics of the values that were tried. `kind`, `options` and `innermost` are as
    in `Value`.

    Examples
    --------
    >>> knob = Knob("tile")
    >>> for tile, latency in [((8, 1), 0.5), ((8, 1), 0.25), ((2, 4), math.inf)]:
    ...     knob.add(tile, latency)
    >>> knob.stats[8, 1].trials, knob.stats[8, 1].best, knob.trials
    (2, 0.25, 3)
    """

    kind: str
    options: tuple[Hashable, ...] = ()
    innermost: int = 0
    stats: dict[Hashable, ValueStats] = field(default_factory=dict)

    @property
    def trials(self) -> int:
        """Number of trials that set this knob; not every sketch has every knob."""
        return sum(stats.trials for stats in self.stats.values())

    def add(self, value: Hashable, latency: float) -> None:
        """Add a trial with its latency in seconds, infinite for a failure."""
        stats = self.stats.get(value)
        if stats is None:
            stats = self.stats[value] = ValueStats()
        stats.trials += 1
        stats.best = min(stats.best, latency)

    def merge(self, value: Hashable, stats: ValueStats) -> None:
        """Add the trials of a value in another log."""
        self.stats.setdefault(value, ValueStats()).merge(stats)


@dataclass(frozen=True)
class Trial:
    """One record of a log.

    Attributes
    ----------
    task : str
        Unique key of the task, the same in all logs.
    name : str
        Display name of the task.
    latency : float
        Seconds; infinite for a failure.
    failure : str
        Kind of failure; empty for a successful trial.
    target : str
        The target it ran on.
    time : float
        Unix timestamp of its end in seconds; NaN if unknown.
    knobs : dict of str to Value
    journal_key : str
        The task's key in journals, if it is not `task`.
    cost : float
        Seconds that it took to build and to run it; 0 if unknown.
    """

    task: str
    name: str
    latency: float
    failure: str
    target: str
    time: float
    knobs: dict[str, Value]
    journal_key: str = ""
    cost: float = 0.0


class Settings:
    """The values of all knobs in all trials, a few bytes each.

    Examples
    --------
    >>> settings = Settings()
    >>> settings.append({"tile": Value("tile", (8, 1))})
    >>> settings.append({"tile": Value("tile", (4, 2)), "unroll": Value("number", 16)})
    >>> settings[0], settings[1]
    ({'tile': (8, 1)}, {'tile': (4, 2), 'unroll': 16})
    """

    def __init__(self) -> None:
        self._values: dict[str, list[Hashable]] = {}  # by knob, as are:
        self._numbers: dict[str, dict[Hashable, int]] = {}  # of the values
        self._columns: dict[str, array[int]] = {}  # the number of each trial's value
        self._size = 0

    def append(self, knobs: Mapping[str, Value]) -> None:
        """Add a trial."""
        for name, value in knobs.items():
            if name not in self._columns:
                self._values[name], self._numbers[name], self._columns[name] = [], {}, array("i")
            values, column = self._values[name], self._columns[name]
            number = self._numbers[name].setdefault(value.value, len(values))
            if number == len(values):
                values.append(value.value)
            column.extend(repeat(_NOT_SET, self._size - len(column)))
            column.append(number)
        self._size += 1

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, trial: int) -> dict[str, Hashable]:
        """The values that a trial set, by knob."""
        return {
            name: self._values[name][column[trial]]
            for name, column in self._columns.items()
            if trial < len(column) and column[trial] != _NOT_SET
        }


class Task:
    """The trials of one task in one log.

    Attributes
    ----------
    key, name, journal_key, target : str
        As in `Trial`.
    knobs : dict of str to Knob
    topologies : mapping of str to list
        The topology of each knob as JSON, if a journal has them; empty otherwise.
    settings : Settings
        Of each trial.
    failures : Counter
        Number of failed trials by kind of failure.
    cost : float
        Seconds that all trials took to build and to run, as far as known, side by side or not.
    failure_costs : dict of str to float
        The same of those that failed, by kind of failure.
    messages : dict of str to Counter
        Error messages by kind of failure, as far as a journal has them.
    repeated : int
        Number of trials whose configuration had been measured before.
    elapsed : array of float
        Seconds spent on this task until the end of each trial; empty if some timestamps are
        unknown.
    confirmation : Confirmation, optional
        The timings of its best trial at the end of a run; None if there are none, or a later trial
        was faster.
    """

    def __init__(self, first: Trial) -> None:
        self.key, self.name, self.target = first.task, first.name, first.target
        self.journal_key = ""
        self.knobs: dict[str, Knob] = {}
        self.topologies: Mapping[str, list[Any]] = {}
        self.settings = Settings()
        self.failures: Counter[str] = Counter()
        self.cost = 0.0
        self.failure_costs: dict[str, float] = {}
        self.messages: dict[str, Counter[str]] = {}
        self.repeated = 0
        self.elapsed: Array = np.empty(0)
        self.confirmation: Confirmation | None = None
        self._latencies, self._times, self._positions = array("d"), array("d"), array("q")
        self._measured: dict[int, float] = {}
        self._top: list[tuple[float, int, dict[str, Value]]] = []

    def add(self, trial: Trial, position: int = 0) -> None:
        """Add a trial, given its position among the log's."""
        # of the last one, which the run with the journal may have added
        self.journal_key = trial.journal_key or trial.task
        self.cost += trial.cost
        self._positions.append(position)
        self._latencies.append(trial.latency)
        self._times.append(trial.time)
        self.settings.append(trial.knobs)
        if trial.failure:
            self.failures[trial.failure] += 1
            self.failure_costs[trial.failure] = (
                self.failure_costs.get(trial.failure, 0.0) + trial.cost
            )
        # Hash the text: Python hashes -1 and -2 alike, and both are compute locations.
        configuration = hash(str([(name, value.value) for name, value in trial.knobs.items()]))
        self.repeated += configuration in self._measured
        self._measured[configuration] = min(
            trial.latency, self._measured.get(configuration, math.inf)
        )
        for name, value in trial.knobs.items():
            knob = self.knobs.get(name)
            if knob is None:
                knob = self.knobs[name] = Knob(value.kind, value.options, value.innermost)
            if value.kind != knob.kind:  # such as a knob that is a number or None
                knob.kind = "choice"
            knob.add(value.value, trial.latency)
        if trial.latency < (self._top[-1][0] if len(self._top) == _TOP else math.inf):
            self._top = nsmallest(
                _TOP,
                [*self._top, (trial.latency, len(self._latencies), trial.knobs)],
                key=lambda x: x[:2],
            )

    def merge_journal(
        self,
        events: Sequence[TrialEnded],
        confirmation: Confirmation | None,
        cut_off: Sequence[float] = (),
    ) -> None:
        """Add error messages and the confirmation from a journal and, if it covers all trials, what
        the log lacks: timestamps and failures. A run that is `cut_off` may have had no time to
        write its last events."""
        lacks_times = not np.isfinite(self.times).all()
        events = _completed(events, len(self), cut_off) if lacks_times else events
        if lacks_times and len(events) == len(self):
            self._times = array("d", (event.time for event in events))
            kinds = (
                event.failure or UNKNOWN_FAILURE * (latency == math.inf)
                for event, latency in zip(events, self._latencies)
            )
            self.failures = Counter(printable(kind) for kind in kinds if kind)
            self.cost, self.failure_costs = 0.0, {}
        for event in events:
            if event.message:
                self.messages.setdefault(printable(event.failure), Counter())[
                    printable(event.message)
                ] += 1
        if (
            confirmation
            and not (
                self.latencies[self.times > confirmation.time] < np.median(confirmation.latencies)
            ).any()
        ):
            self.confirmation = confirmation

    def ratios(self, other: Task) -> list[float]:
        """Latency here divided by that in another log, of each configuration that succeeded in
        both.
        """
        both = (
            (latency, other._measured.get(configuration, math.inf))
            for configuration, latency in self._measured.items()
        )
        return [
            mine / theirs for mine, theirs in both if 0 < mine < math.inf and 0 < theirs < math.inf
        ]

    def __len__(self) -> int:
        return len(self._latencies)

    @property
    def latencies(self) -> Array:
        """Latency of each trial in seconds; infinite for failures."""
        return np.array(self._latencies)

    @property
    def times(self) -> Array:
        """Unix timestamp of each trial's end in seconds; NaN if unknown."""
        return np.array(self._times)

    @property
    def positions(self) -> Array:
        """Position of each trial among all trials of the log."""
        return np.array(self._positions, float)

    @property
    def kind(self) -> str:
        """What it computes, such as ``"conv2d_NCHWc"``: the first word of its name, without the
        target.
        """
        return self.name.partition(" ")[0].partition(".")[0]

    @property
    def best_so_far(self) -> Array:
        """Lowest latency up to each trial, in seconds."""
        return np.minimum.accumulate(self.latencies) if len(self) else self.latencies

    @property
    def best(self) -> float:
        """Lowest latency in seconds; infinite if all trials failed."""
        return self._top[0][0] if self._top else math.inf

    @property
    def latency(self) -> float:
        """What its best takes, in seconds: the best trial may have been a lucky one, so as it was
        confirmed if that is longer.
        """
        return (
            max(self.best, float(np.median(self.confirmation.latencies)))
            if self.confirmation
            else self.best
        )

    @property
    def first_success(self) -> float:
        """Latency of the first successful trial in seconds; infinite if all trials failed."""
        successes = self.latencies[np.isfinite(self.latencies)]
        return float(successes[0]) if len(successes) else math.inf

    @property
    def best_trial(self) -> int:
        """Number of the best trial, counted from 1; 0 if all trials failed."""
        return self._top[0][1] if self._top else 0

    @property
    def top(self) -> list[tuple[float, int, dict[str, Value]]]:
        """The best trials, best first: latency in seconds, trial number, knobs."""
        return list(self._top)


def _completed(
    events: Sequence[TrialEnded], trials: int, cut_off: Sequence[float]
) -> Sequence[TrialEnded]:
    """The events of as many trials, if those that lack are the last of a run that was cut off: at
    the time of the one before.
    """
    missing = trials - len(events)
    if missing <= 0 or not events or not cut_off:
        return events
    before = bisect([event.time for event in events], cut_off[-1])
    last = events[max(0, before - 1)]
    unknown = TrialEnded(task=last.task, time=last.time)
    return [*events[:before], *[unknown] * missing, *events[before:]]
