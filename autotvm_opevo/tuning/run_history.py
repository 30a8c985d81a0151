"""The runs that wrote a log, put together from the entries of its journal. Needs no TVM."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from statistics import median
from typing import Any, NamedTuple

from autotvm_opevo.tuning.confidence import Estimate
from autotvm_opevo.tuning.journal import JournalEntry


class Confirmation(NamedTuple):
    """When a task's best trial was timed again, as a Unix timestamp in seconds, its latencies in seconds, and how many others
    may be as fast."""

    time: float
    latencies: list[float]
    ties: int = 0

    @property
    def spread(self) -> float:
        """Median relative distance of the latencies from their median.

        >>> Confirmation(0.0, [1.0, 1.5, 2.0]).spread.__round__(3)
        0.333
        """
        latency = median(self.latencies)
        return median(abs(one / latency - 1) for one in self.latencies)


@dataclass
class RunHistory:
    """The runs that wrote a log one after the other, according to its journal.

    Attributes
    ----------
    starts : list of float
        Unix timestamps of their starts.
    ready : list of float
        Unix timestamps at which they began to measure tasks, as far as known.
    tuners : list of str
        Their tuners; consecutive runs of the same tuner are listed once.
    operators : dict of tuple of str to int
        How often the networks run each operator, by the tasks that implement it.
    networks : list of dict
        The operators of each network that was tuned, the last one's last.
    latency : tuple of float, optional
        Latency of the last run's network in seconds, before and after tuning.
    speedup : Estimate, optional
        How many times as fast it is after tuning; None if unknown, also in journals of earlier versions.
    phases : dict of str to float
        Seconds of each phase, in all runs that ended; empty if unknown.
    timed : int
        Number of runs that wrote their phases: what is killed does not.
    cut_off : list of float
        Unix timestamps of the starts that follow runs that did not; infinity if the last one has not, which may still run.
    stop_reason : str
        Why the last run ended, as in `TuningResult`; empty if unknown.
    lost : list of str
        Addresses of devices that left during a run.
    lowering : dict of str to int
        Of the last run's network, the number of convolutions that were converted to NHWC, of operators whose schedules pack their
        weights, of convolutions by Winograd's algorithm, and of operators with vectorizable functions: ``"nhwc"``, ``"packed"``,
        ``"winograd"`` and ``"fast_math"``; empty if unknown.
    learned_from : dict of str to dict
        By task: how many others it learned from, by their origin, as far as known.
    yardstick : list of (float, float)
        Unix timestamps and latencies in seconds of the last run's yardstick.
    yardstick_kernel : str
        What it is: another one's latency says nothing about it.
    command : str
        What started the last run; empty if unknown.
    budget : int
        Its number of trials, those of earlier runs included; 0 if unknown.
    names : dict of str to str
        By task: its name in tables, as far as known.
    knobs : dict of str to dict
        By task: the topology of each knob as JSON, as far as known.
    flop, limits : dict of str to float
        By task: operations, and the seconds that the machine needs for them at least, as far as known.
    memory_bound : set of str
        Tasks whose limit is that of the memory, not of the operations.
    sizes : dict of str to float
        By task: the bytes of its tensors, as far as known.
    flops, memory_bandwidth : float
        Operations per second that the machine can do, and bytes per second that its memory can; 0 if unknown.
    threads : int
        In which TVM ran kernels on this machine's CPU; 0 if unknown.
    confirmed : dict of str to Confirmation
        By task: when its best trial was timed again last.
    aligned, kept_untuned : int
        For how many tasks and operators the file of the best has not the fastest; see `TuningResult`.
    """

    starts: list[float] = field(default_factory=list)
    ready: list[float] = field(default_factory=list)
    tuners: list[str] = field(default_factory=list)
    operators: dict[tuple[str, ...], int] = field(default_factory=dict)
    networks: list[dict[tuple[str, ...], int]] = field(default_factory=list)
    latency: tuple[float, float] | None = None
    speedup: Estimate | None = None
    phases: dict[str, float] = field(default_factory=dict)
    timed: int = 0
    cut_off: list[float] = field(default_factory=list)
    stop_reason: str = ""
    lost: list[str] = field(default_factory=list)
    lowering: dict[str, int] = field(default_factory=dict)
    learned_from: dict[str, dict[str, int]] = field(default_factory=dict)
    yardstick: list[tuple[float, float]] = field(default_factory=list)
    yardstick_kernel: str = ""
    command: str = ""
    budget: int = 0
    knobs: dict[str, dict[str, list[Any]]] = field(default_factory=dict)
    flop: dict[str, float] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    limits: dict[str, float] = field(default_factory=dict)
    memory_bound: set[str] = field(default_factory=set)
    sizes: dict[str, float] = field(default_factory=dict)
    flops: float = 0.0
    memory_bandwidth: float = 0.0
    threads: int = 0
    confirmed: dict[str, Confirmation] = field(default_factory=dict)
    aligned: int = 0
    kept_untuned: int = 0

    def add(self, entry: JournalEntry) -> None:
        """Update the history from an entry; those about trials change nothing."""
        if entry.yardstick:
            if entry.task != self.yardstick_kernel:  # another kernel takes another time
                self.yardstick_kernel, self.yardstick = entry.task, []
            self.yardstick.append((entry.time, entry.yardstick))
        if entry.confirmed:
            self.confirmed[entry.task] = Confirmation(entry.time, entry.confirmed["latencies"], entry.confirmed["ties"])
        network = entry.network or {}
        operators = {tuple(tasks): count for count, tasks in network.get("operators", ())}
        self.operators.update(operators)
        if "tuner" in network:
            self.starts.append(entry.time)
            self.cut_off = [*(entry.time if moment == inf else moment for moment in self.cut_off), inf]
            self.command, self.budget = network.get("command", ""), network.get("budget", 0)
            self.stop_reason = ""
            if self.tuners[-1:] != [network["tuner"]]:
                self.tuners.append(network["tuner"])
            if self.networks[-1:] != [operators]:  # the latency so far is another network's
                self.latency = self.speedup = None
                self.aligned = self.kept_untuned = 0
            self.networks = [*(network for network in self.networks if network != operators), operators]
        self.flop.update(network.get("flop", {}))
        self.names.update(network.get("names", {}))
        self.knobs.update(network.get("knobs", {}))
        if "ready" in network or "limits" in network:  # journals of earlier versions have only the latter
            self.ready.append(entry.time)
        if "limits" in network:
            self.limits.update(network["limits"])
            self.sizes.update(network.get("sizes", {}))
            self.flops = network.get("flops", 0.0)
            self.memory_bandwidth = network.get("memory_bandwidth", 0.0)
            self.threads = network.get("threads", 0)
            self.memory_bound = (self.memory_bound - network["limits"].keys()) | {*network.get("memory_bound", ())}
        self.timed += "phases" in network
        if "phases" in network:
            self.cut_off = [moment for moment in self.cut_off if moment < inf]
        self.stop_reason = network.get("stop_reason", self.stop_reason)
        self.lowering = network.get("lowering", self.lowering)
        self.lost.extend(network.get("lost", ()))
        self.learned_from.update(network.get("learned_from", {}))
        for phase, seconds in network.get("phases", {}).items():
            self.phases[phase] = self.phases.get(phase, 0.0) + seconds
        self.aligned = network.get("aligned", self.aligned)
        self.kept_untuned = network.get("kept_untuned", self.kept_untuned)
        if "before" in network:
            self.latency, self.speedup = (network["before"], network["after"]), network.get("speedup")
