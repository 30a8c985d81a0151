"""What a tuning run knows and its log has no words for: why trials failed, when they ended, what the network gained.

AutoTVM's log keeps no error's message, MetaSchedule's database no time either. `tune_network` writes them beside it, one line of
JSON for each, and the report reads them. Nothing depends on a journal: a log without one, or with a torn one, is as good.
Knows no TVM.
"""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from autotvm_opevo.tuning.speedup import Speedup

# Its name in a work directory of MetaSchedule's; beside a log of AutoTVM's it is LOG.journal.
JOURNAL = "journal"

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Entry:
    """One line.

    Attributes
    ----------
    task : str
        What the log calls the task; empty for the network.
    time : float
        Seconds since 1970.
    failure, message : str
        The kind of a failure and what the error said; empty for a trial that worked.
    network : dict
        When tuning begins, the ``"operators"``, each how often it is run and the tasks that compute it, and the ``"tuner"``; in
        the end, the network's seconds ``"before"`` and ``"after"``, the medians. None for a trial.
    """

    task: str = ""
    time: float = 0.0
    failure: str = ""
    message: str = ""
    network: Mapping[str, Any] | None = None


@dataclass
class Runs:
    """What a journal says of the runs that wrote a log, one after the other.

    Attributes
    ----------
    starts : list of float
        When they began, in seconds since 1970.
    tuners : list of str
        What tuned, each once for as long as it did.
    operators : dict of tuple of str to int
        How often the networks run an operator, by the tasks that compute it.
    latency : tuple of float, optional
        The seconds of the last run's network before and after.
    """

    starts: list[float] = field(default_factory=list)
    tuners: list[str] = field(default_factory=list)
    operators: dict[tuple[str, ...], int] = field(default_factory=dict)
    latency: tuple[float, float] | None = None
    _network: dict[tuple[str, ...], int] | None = None

    def add(self, entry: Entry) -> None:
        """Take what an entry says of a network, when a run begins or when it has ended."""
        said = entry.network or {}
        operators = {tuple(names): count for count, names in said.get("operators", ())}
        self.operators.update(operators)
        if "tuner" in said:
            self.starts.append(entry.time)
            if self.tuners[-1:] != [said["tuner"]]:
                self.tuners.append(said["tuner"])
            if operators != self._network:  # what is known of the last one's is of another
                self._network, self.latency = operators, None
        if "before" in said:
            self.latency = said["before"], said["after"]


class Journal:
    """Appends to a journal; when the disk is full, it says so once and tuning goes on.

    Parameters
    ----------
    path : str or path
    anew : bool
        Whether the log has nothing yet: what the journal of an earlier one says is not of this one.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "log.json.journal"
    ...     Journal(path).write(task="dense", failure="run timeout", message="longer than 20 s")
    ...     [(entry.task, entry.failure) for entry in read(path)]
    [('dense', 'run timeout')]
    """

    def __init__(self, path: str | PathLike[str], anew: bool = False) -> None:
        self._path = Path(path)
        self._complained = False
        with suppress(OSError):
            if anew:
                self._path.unlink(missing_ok=True)
            elif self._path.exists() and not self._path.read_bytes().endswith(b"\n"):
                self._append("")  # the end of a line that was torn, which would swallow the next one

    def write(self, **said: Any) -> None:
        """An `Entry` of what is said, with the time of now."""
        line = json.dumps({name: value for name, value in asdict(Entry(time=time.time(), **said)).items() if value})
        try:
            self._append(line)
        except OSError as error:
            if not self._complained:
                logger.warning("cannot write %s, which only reports read: %s", self._path, error.strerror)
            self._complained = True

    def _append(self, line: str) -> None:
        with open(self._path, "a") as file:
            file.write(line + "\n")

    def begin(self, operators: Sequence[tuple[int, Sequence[str]]], tuner: str) -> None:
        """When tuning begins: how often the network runs each operator and the tasks that compute it, and what tunes them."""
        self.write(network={"operators": operators, "tuner": tuner})

    def comparison(self, comparison: Speedup) -> None:
        """The network before and after."""
        before, after = (float(np.median(runs)) for runs in (comparison.before, comparison.after))
        self.write(network={"before": before, "after": after})


def read(path: Path) -> Iterator[Entry]:
    """Every line that is one, in their order; none where there is no journal."""
    if not path.is_file():
        return
    with open(path, "rb") as file:
        for line in file:
            with suppress(ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError):
                yield _entry(json.loads(line))


def _entry(said: dict[str, Any]) -> Entry:
    """With nothing but what an entry has, of the types that it has them."""
    network = said.get("network")
    if network is not None:
        found: dict[str, Any] = {}
        if "operators" in network:
            found["operators"] = [(int(count), [str(name) for name in names]) for count, names in network["operators"]]
            if any(count < 1 for count, _ in found["operators"]):
                raise ValueError("no network runs an operator less than once")
        if "tuner" in network and "operators" in network:
            found["tuner"] = str(network["tuner"])
        if "before" in network:
            found.update({name: float(network[name]) for name in ("before", "after")})
            if not all(0 < found[name] < math.inf for name in ("before", "after")):
                raise ValueError("no network takes no time, or never ends")
        network = found
    texts = [str(said.get(name, "")) for name in ("task", "failure", "message")]
    return Entry(texts[0], moment(said["time"]), texts[1], texts[2], network)


def moment(said: Any) -> float:
    """Seconds since 1970; not a number for what is in no time that anybody tunes in.

    >>> moment(1795260407.5), moment(float("-inf")), moment(1e18)
    (1795260407.5, nan, nan)
    """
    time = float(said)
    return time if 0 <= time < 1e10 else math.nan
