"""The run log: events of tuning runs that AutoTVM's log and MetaSchedule's database
have no room for.

AutoTVM's log has no error messages; MetaSchedule's database has no timestamps either.
`tune_network` writes them to a run log beside the log, one event per line. Reports read it, and
later runs with the same log: which trials were re-measured, and how fast the machine was. The
run log is optional: a log without one, or with a damaged one, remains valid. A run that was killed
has a `RunStarted` without a `RunEnded`. Needs no TVM.

A new kind of event is a class here, a branch of `Runs.replay` if a later run or a report needs it,
and a row of docs/reference/files.md.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from math import isfinite
from os import PathLike
from pathlib import Path
from statistics import median
from typing import Annotated, Any, Union

import msgspec

from autotvm_opevo._utils import jsonl
from autotvm_opevo.tuning.race import Estimate, Race

# The file name in a MetaSchedule work directory.
FILE_NAME = "journal"

Positive = Annotated[float, msgspec.Meta(gt=0, le=1e300)]
NotNegative = Annotated[float, msgspec.Meta(ge=0, le=1e300)]
ByTask = dict[str, NotNegative]

logger = logging.getLogger(__name__)


class Event(msgspec.Struct, kw_only=True, omit_defaults=True, tag=True):
    """One line of a run log. Tasks are named by their keys."""

    # Unix timestamp, set when it is written.
    time: Annotated[float, msgspec.Meta(ge=0, lt=1e10)] = 0.0


class RunStarted(Event):
    """A run has trials to make, up to `budget`, those of earlier runs included. `operators` are
    pairs of how often the network runs an operator and the tasks that implement it; `flop` and
    `names` are the tasks' operations, and their names in tables."""

    operators: list[tuple[Annotated[int, msgspec.Meta(ge=1)], list[str]]]
    tuner: str
    command: str = ""
    budget: int = 0
    flop: ByTask = msgspec.field(default_factory=dict)
    names: dict[str, str] = msgspec.field(default_factory=dict)


class ExtentsKnown(Event):
    """The extents of the loops that tiles split, by task and knob: AutoTVM's log has only the inner
    parts of a tile.
    """

    extents: dict[str, dict[str, int]]


class MachineMeasured(Event):
    """The seconds that each task takes at least, for which of them the memory is the reason, and
    the bytes of their tensors."""

    bounds: ByTask
    memory_bound: list[str] = msgspec.field(default_factory=list)
    sizes: ByTask = msgspec.field(default_factory=dict)


class MeasuringBegan(Event):
    """Worker processes have started, and the first trial follows."""


class TrialEnded(Event):
    """A trial has failed or, with MetaSchedule, ended in any way: kind of failure and message."""

    task: str
    failure: str = ""
    message: str = ""


class BestConfirmed(Event):
    """A task's best trials have been timed again: the winner as a line of AutoTVM's log (empty with
    MetaSchedule), its latencies in seconds, and how many others may be as fast."""

    task: str
    record: str
    latencies: Annotated[list[Positive], msgspec.Meta(min_length=1)]
    ties: int = 0

    @property
    def latency(self) -> float:
        """Median latency in seconds."""
        return median(self.latencies)

    @property
    def spread(self) -> float:
        """Median relative distance of the latencies from their median.

        >>> BestConfirmed("dense", "", [1.0, 1.5, 2.0]).spread.__round__(3)
        0.333
        """
        return median(abs(latency / self.latency - 1) for latency in self.latencies)


class RunEnded(Event):
    """Seconds of each phase of a run, and why it ended, as in `TuningResult`."""

    phases: dict[str, NotNegative]
    stop_reason: str = ""


class BestWritten(Event):
    """The tasks that the file of the best has no record of, though they have some, and those of
    networks that are better untuned."""

    left_out: list[str] = msgspec.field(default_factory=list)
    untuned: list[str] = msgspec.field(default_factory=list)


class NetworkCompared(Event):
    """Seconds of the network before and after tuning, and the speedup with its interval."""

    before: Positive
    after: Positive
    speedup: list[Positive] = msgspec.field(default_factory=list)

    @classmethod
    def of(cls, race: Race) -> NetworkCompared:
        """As timed in rounds with the untuned network."""
        speedup = race.speedup(1, 0)
        known = all(map(isfinite, speedup))  # a single round has no interval
        return cls(race.latency(0).value, race.latency(1).value, list(speedup) if known else [])


class OutputsDiffered(Event):
    """The outputs of the tuned network were not those of the untuned one, which the best file has
    instead; neither was timed."""


_EVENTS: Any = Union[tuple(Event.__subclasses__())]


class RunLog:
    """Appends events to a run log. If it cannot be written, a warning is logged once and tuning
    continues. `overwrite` deletes an existing one, which describes an earlier log of the same name;
    `runs` are those before this one.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "log.json.journal"
    ...     RunLog(path).write(TrialEnded(task="dense", failure="run timeout"))
    ...     [(event.task, event.failure) for event in read(path)]
    [('dense', 'run timeout')]
    """

    def __init__(self, path: str | PathLike[str], overwrite: bool = False) -> None:
        self.path = Path(path)
        self._warned = False
        if overwrite:
            with suppress(OSError):
                self.path.unlink()
        self.runs = Runs()
        with suppress(OSError):
            self.runs.replay(read(self.path))

    def write(self, event: Event) -> None:
        """Append an event with the current time."""
        try:
            stamped = msgspec.structs.replace(event, time=time.time())
            jsonl.append(self.path, msgspec.to_builtins(stamped, enc_hook=_builtin))
        except OSError as error:
            if not self._warned:
                missed = "a report and a later run will miss what it has"
                logger.warning("cannot write %s: %s: %s", self.path, missed, error.strerror)
            self._warned = True


def read(path: Path) -> Iterator[Event]:
    """Iterate over the valid events of a run log, if there is one."""
    if not path.is_file():
        return
    with open(path, "rb") as file:
        for _, value in jsonl.read(file):
            with suppress(msgspec.ValidationError, RecursionError):
                yield msgspec.convert(value, _EVENTS)


def run_log_file(log: Path) -> Path:
    """The file of an AutoTVM log's run log, or of a work directory's.

    >>> run_log_file(Path("alexnet.json")).name
    'alexnet.json.journal'
    """
    return log / FILE_NAME if log.is_dir() else log.with_name(f"{log.name}.{FILE_NAME}")


# How often a network runs each operator, by the tasks that implement it.
Network = dict[tuple[str, ...], int]


@dataclass
class Runs:
    """The runs that wrote a log, replayed; what is unknown is empty, 0 or None."""

    # Unix timestamps of their starts, and of when they began to measure tasks.
    starts: list[float] = field(default_factory=list)
    measuring_since: list[float] = field(default_factory=list)
    # Their tuners; consecutive runs of the same tuner are listed once.
    tuners: list[str] = field(default_factory=list)
    # Those that were tuned, the last one last.
    networks: list[Network] = field(default_factory=list)
    # Of the last run: see `NetworkCompared`, `OutputsDiffered`, `RunEnded` and `RunStarted`.
    latency: tuple[float, float] | None = None
    speedup: Estimate | None = None
    outputs_differ: bool = False
    stop_reason: str = ""
    command: str = ""
    budget: int = 0
    # Seconds of each phase, in all runs that ended, and their number: what is killed does not.
    phases: dict[str, float] = field(default_factory=dict)
    runs_ended: int = 0
    # By task, the last that is known: see `RunStarted`, `ExtentsKnown`, `MachineMeasured`, and
    # `BestConfirmed`.
    names: dict[str, str] = field(default_factory=dict)
    extents: dict[str, dict[str, int]] = field(default_factory=dict)
    flop: dict[str, float] = field(default_factory=dict)
    bounds: dict[str, float] = field(default_factory=dict)
    sizes: dict[str, float] = field(default_factory=dict)
    confirmed: dict[str, BestConfirmed] = field(default_factory=dict)
    memory_bound: set[str] = field(default_factory=set)
    # Of the file of the best: when it was written, 0 if it was not, and see `BestWritten`.
    best_written: float = 0.0
    left_out: set[str] = field(default_factory=set)
    untuned: set[str] = field(default_factory=set)

    def replay(self, events: Iterable[Event]) -> None:
        """Update from events; those about trials change nothing."""
        for event in events:
            if isinstance(event, RunStarted):
                self._start(event)
            elif isinstance(event, ExtentsKnown):
                self.extents.update(event.extents)
            elif isinstance(event, MachineMeasured):
                bounds = _known(event.bounds)
                self.bounds.update(bounds)
                self.sizes.update(_known(event.sizes))
                self.memory_bound = (self.memory_bound - bounds.keys()) | {*event.memory_bound}
            elif isinstance(event, MeasuringBegan):
                self.measuring_since.append(event.time)
                self._forget_comparison()  # which was of an earlier best
            elif isinstance(event, BestConfirmed):
                self.confirmed[event.task] = event
            elif isinstance(event, RunEnded):
                self.runs_ended += 1
                self.stop_reason = event.stop_reason
                for phase, seconds in _known(event.phases).items():
                    self.phases[phase] = self.phases.get(phase, 0.0) + seconds
            elif isinstance(event, BestWritten):
                self.best_written = event.time
                self.left_out, self.untuned = {*event.left_out}, {*event.untuned}
            elif isinstance(event, NetworkCompared):
                self._forget_comparison()
                self.latency = event.before, event.after
                self.speedup = Estimate(*event.speedup) if len(event.speedup) == 3 else None
            elif isinstance(event, OutputsDiffered):
                self._forget_comparison()
                self.outputs_differ = True

    def _start(self, event: RunStarted) -> None:
        operators = {tuple(tasks): count for count, tasks in event.operators}
        self.starts.append(event.time)
        self.command, self.budget, self.stop_reason = event.command, event.budget, ""
        if self.tuners[-1:] != [event.tuner]:
            self.tuners.append(event.tuner)
        if self.networks[-1:] != [operators]:  # what is known so far is of another network
            self._forget_comparison()
        self.networks = [*(network for network in self.networks if network != operators), operators]
        self.flop.update(_known(event.flop))
        self.names.update(event.names)

    def _forget_comparison(self) -> None:
        self.latency = self.speedup = None
        self.outputs_differ = False


def _builtin(value: Any) -> Any:
    """A scalar of numpy as Python's."""
    return value.item()


def _known(values: Mapping[str, float]) -> dict[str, float]:
    return {name: value for name, value in values.items() if value}
