"""The journal of a tuning run: what its log has no fields for, such as error messages, timestamps and the network's latency.

AutoTVM's log has no error messages; MetaSchedule's database has no timestamps either. `tune_network` writes them to a journal
beside the log, one JSON object per line. Reports read it, and later runs with the same log: which trials were confirmed, and how
fast the machine was. The journal is optional: a log without one, or with a damaged one, remains valid. Needs no TVM.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from autotvm_opevo._utils import jsonl
from autotvm_opevo.topology import InducedSubgraph, Topology
from autotvm_opevo.topology.serialization import as_json
from autotvm_opevo.topology.subgraph import unrestricted
from autotvm_opevo.tuning.comparison import Comparison
from autotvm_opevo.tuning.confidence import Estimate
from autotvm_opevo.tuning.roofline import Roofline

# The file name in a MetaSchedule work directory; the journal of AutoTVM's LOG is LOG.journal.
JOURNAL = "journal"

# Of larger subgraphs, the journal has the whole graph instead of all vertices, or nothing if that is infinite.
_MAX_VERTICES = 200

# Origin of what other tasks teach while they are tuned, in the same run.
THIS_RUN = "this run"

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class JournalEntry:
    """One line of a journal.

    Attributes
    ----------
    task : str
        The log's key for the task; empty for an entry about the network.
    time : float
        Unix timestamp in seconds.
    failure, message : str
        The kind of failure and the error message; empty for a successful trial.
    confirmed : dict
        When the task's best trials have been timed again: ``"record"``, the line of AutoTVM's log with the winner and its
        confirmed time (empty with MetaSchedule), ``"latencies"``, all of its times in seconds,
        ``"latency"``, their median without drift, and ``"ties"``, the number of others that may be as fast. None for a trial.
    yardstick : float
        Latency in seconds of a kernel that stays the same, by which the machine's drift is known; 0 for all other entries. Its
        `task` names the kernel.
    network : dict
        When a run starts: ``"operators"``, pairs of how often the network runs an operator and the tasks that implement it,
        ``"tuner"``, ``"command"``, ``"budget"``, the number of trials, ``"flop"`` and ``"names"``, the operations and the name of
        each task; with AutoTVM ``"knobs"``, the topology of each of a task's knobs as JSON; and with MetaSchedule ``"lowering"``,
        as in `RunHistory`. Once the machine is measured: ``"limits"``, the seconds that each task takes at least,
        ``"memory_bound"``, those that the memory limits, ``"sizes"``, the bytes of each task's tensors, ``"flops"``, operations
        per second, and the bytes per second of large and of small arrays, ``"memory_bandwidth"`` and ``"bandwidth"``, in
        ``"threads"`` threads. When trials
        begin: ``"ready"``. When the run ends: ``"phases"``, the seconds of each phase; ``"stop_reason"``; ``"learned_from"``, by
        task, how many others it learned from in the end, by their origin; and ``"lost"``, the addresses of devices that left.
        When the networks were compared: the latencies in seconds ``"before"`` and ``"after"`` tuning, and ``"speedup"``, their
        ratio with its interval. When the best are written: ``"aligned"`` and ``"kept_untuned"``, as in `TuningResult`, and
        ``"left_out"``, the tasks that have records, but none in the file. None for a trial.
    """

    task: str = ""
    time: float = 0.0
    failure: str = ""
    message: str = ""
    confirmed: Mapping[str, Any] | None = None
    yardstick: float = 0.0
    network: Mapping[str, Any] | None = None


class Journal:
    """Appends entries to a journal. If it cannot be written, a warning is logged once and tuning continues.

    Parameters
    ----------
    path : str or path
    overwrite : bool
        Delete an existing journal: it describes an earlier log of the same name.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "log.json.journal"
    ...     Journal(path).write(task="dense", failure="run timeout", message="longer than 20 s")
    ...     [(entry.task, entry.failure) for entry in read(path)]
    [('dense', 'run timeout')]
    """

    def __init__(self, path: str | PathLike[str], overwrite: bool = False) -> None:
        self.path = Path(path)
        self._warned = False
        if overwrite:
            with suppress(OSError):
                self.path.unlink(missing_ok=True)

    def write(self, **fields: Any) -> None:
        """Append a `JournalEntry` with the given fields and the current time."""
        entry = {name: value for name, value in asdict(JournalEntry(time=time.time(), **fields)).items() if value}
        try:
            jsonl.append(self.path, entry)
        except OSError as error:
            if not self._warned:
                logger.warning("cannot write %s: a report and a later run will miss what it has: %s", self.path, error.strerror)
            self._warned = True

    def write_start(
        self,
        operators: Sequence[tuple[int, Sequence[str]]],
        tuner: str,
        command: str = "",
        budget: int = 0,
        flop: Mapping[str, float] | None = None,
        names: Mapping[str, str] | None = None,
    ) -> None:
        """Record the start of a run; see `JournalEntry`."""
        known = {"flop": dict(flop or {}), "names": dict(names or {})}
        self.write(network={"operators": operators, "tuner": tuner, "command": command, "budget": budget, **known})

    def write_limits(
        self,
        limits: Mapping[str, float],
        memory_bound: Sequence[str] = (),
        sizes: Mapping[str, float] | None = None,
        roofline: Roofline | None = None,
    ) -> None:
        """Record the seconds that each task takes at least on this machine, for which of them the memory is the reason, the bytes
        of their tensors, and what the machine can do."""
        known = roofline or Roofline()
        machine = {
            "flops": known.flops if known.flops < math.inf else 0.0,
            "memory_bandwidth": known.memory_bandwidth,
            "threads": known.threads,
        }
        tasks = {"limits": dict(limits), "memory_bound": list(memory_bound), "sizes": dict(sizes or {})}
        self.write(network={**tasks, **machine, "bandwidth": known.bandwidth})

    def write_confirmed(self, task: str, record: str, latencies: Sequence[float], latency: float, ties: int = 0) -> None:
        """Record which trial was confirmed as a task's best, as a line of AutoTVM's log, and its latencies in seconds.

        `latency` is their median, without the machine's drift; `ties`, how many others may be as fast.
        """
        self.write(task=task, confirmed={"record": record, "latencies": list(latencies), "latency": latency, "ties": ties})

    def write_knobs(self, knobs: Mapping[str, Mapping[str, Topology]]) -> None:
        """Record the topology of each knob by task: the log has only the values that were tried, and a tile's inner parts."""
        self.write(network={"knobs": {task: _drawable(one) for task, one in knobs.items()}})

    def write_chosen(self, aligned: int, kept_untuned: int, left_out: Sequence[str] = ()) -> None:
        """Record for how many tasks and operators the file of the best does not have the fastest; see `TuningResult`.

        `left_out` are the tasks that it has no record of, though they have some.
        """
        self.write(network={"aligned": aligned, "kept_untuned": kept_untuned, "left_out": list(left_out)})

    def write_end(self, phases: Mapping[str, float], stop_reason: str = "") -> None:
        """Record the seconds of each phase of a run, when it ends, and why it did."""
        self.write(network={"phases": dict(phases), "stop_reason": stop_reason})

    def write_learned_from(self, origins: Mapping[str, Mapping[str, int]]) -> None:
        """Record, for each task, how many others it learned from in the end, by their origin."""
        learned = {task: dict(counts) for task, counts in origins.items() if counts}
        if learned:
            self.write(network={"learned_from": learned})

    def write_lowering(self, counts: Mapping[str, int]) -> None:
        """Record the number of operators that are tuned in other layouts, and with other functions, than they had."""
        self.write(network={"lowering": dict(counts)})

    def write_lost_devices(self, addresses: Sequence[str]) -> None:
        """Record the addresses of devices that left during a run."""
        self.write(network={"lost": list(addresses)})

    def write_comparison(self, comparison: Comparison) -> None:
        """Record the network's latency before and after tuning, if it was timed."""
        if rounds := comparison.rounds if comparison.rounds.latencies else None:
            speedup = [bound for bound in rounds.speedup(1, 0) if math.isfinite(bound)]  # a single round has no interval
            self.write(network={"before": rounds.latency(0).value, "after": rounds.latency(1).value, "speedup": speedup})


def read(path: Path) -> Iterator[JournalEntry]:
    """Iterate over the valid entries of a journal, skipping all other lines; empty if there is no journal."""
    if not path.is_file():
        return
    with open(path, "rb") as file:
        for _, value in jsonl.read(file):
            with suppress(ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError):
                yield _parse(value)


def _parse(fields: dict[str, Any]) -> JournalEntry:
    """Validate and convert an entry's fields; unknown ones are dropped."""
    network, confirmed = fields.get("network"), fields.get("confirmed")
    return JournalEntry(
        time=as_timestamp(fields["time"]),
        confirmed=None if confirmed is None else _parse_confirmed(confirmed),
        yardstick=_positive(fields["yardstick"]) if "yardstick" in fields else 0.0,
        network=None if network is None else _parse_network(network),
        **{name: str(fields.get(name, "")) for name in ("task", "failure", "message")},
    )


def _parse_confirmed(fields: dict[str, Any]) -> dict[str, Any]:
    latencies = [_positive(seconds) for seconds in fields["latencies"]]
    if not latencies:
        raise ValueError("a confirmation has at least one latency")
    ties = int(fields.get("ties", 0))
    return {"record": str(fields["record"]), "latencies": latencies, "latency": _positive(fields["latency"]), "ties": ties}


def _parse_network(fields: dict[str, Any]) -> dict[str, Any]:
    network: dict[str, Any] = {}
    if "operators" in fields:
        network["operators"] = [(int(count), [str(task) for task in tasks]) for count, tasks in fields["operators"]]
        if any(count < 1 for count, _ in network["operators"]):
            raise ValueError("a network runs every operator at least once")
    if "tuner" in fields and "operators" in fields:
        network["tuner"] = str(fields["tuner"])
        network["command"] = str(fields.get("command", ""))
        network["budget"] = int(fields.get("budget", 0))
        network["names"] = {str(task): str(name) for task, name in fields.get("names", {}).items()}
    for name in ("flop", "limits", "sizes"):
        if name in fields:
            network[name] = {str(task): _positive(value) for task, value in fields[name].items() if value}
    if fields.get("ready"):
        network["ready"] = True
    if "knobs" in fields:
        network["knobs"] = {str(task): {str(name): list(one) for name, one in by.items()} for task, by in fields["knobs"].items()}
    if "memory_bound" in fields:
        network["memory_bound"] = [str(task) for task in fields["memory_bound"]]
    for name in ("flops", "memory_bandwidth", "bandwidth"):
        if fields.get(name):
            network[name] = _positive(fields[name])
    if fields.get("threads"):
        network["threads"] = int(fields["threads"])
    if "phases" in fields:
        network["phases"] = {str(phase): _positive(seconds) for phase, seconds in fields["phases"].items() if seconds}
    if "stop_reason" in fields:
        network["stop_reason"] = str(fields["stop_reason"])
    network.update({name: int(fields[name]) for name in ("aligned", "kept_untuned") if name in fields})
    if lowering := fields.get("lowering", fields.get("layouts")):  # its name in earlier versions
        network["lowering"] = {name: int(lowering.get(name, 0)) for name in ("nhwc", "packed", "winograd", "fast_math")}
    if "learned_from" in fields:
        network["learned_from"] = {
            str(task): {str(origin): int(count) for origin, count in counts.items()}
            for task, counts in fields["learned_from"].items()
        }
    for name in ("lost", "left_out"):
        if name in fields:
            network[name] = [str(one) for one in fields[name]]
    if "before" in fields:
        network.update({name: _positive(fields[name]) for name in ("before", "after")})
        if len(speedup := fields.get("speedup", ())) == 3:
            network["speedup"] = Estimate(*map(_positive, speedup))
    return network


def _drawable(knobs: Mapping[str, Topology]) -> dict[str, list[Any]]:
    small = {name: one if one.size <= _MAX_VERTICES else unrestricted(one) for name, one in knobs.items()}
    return {
        name: as_json(one) for name, one in small.items() if one.size <= _MAX_VERTICES or not isinstance(one, InducedSubgraph)
    }


def _positive(value: Any) -> float:
    seconds = float(value)
    if not 0 < seconds < math.inf:
        raise ValueError("a duration is positive and finite")
    return seconds


def as_timestamp(value: Any) -> float:
    """Convert to a Unix timestamp in seconds; NaN if out of range.

    >>> as_timestamp(1795260407.5), as_timestamp(float("-inf")), as_timestamp(1e18)
    (1795260407.5, nan, nan)
    """
    seconds = float(value)
    return seconds if 0 <= seconds < 1e10 else math.nan
