"""The result of tuning a network, as data and as text. Imports no TVM."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from autotvm_opevo._utils.text import milliseconds, pluralize
from autotvm_opevo.tuning.progress import Row, table

if TYPE_CHECKING:
    from autotvm_opevo.tuning.comparison import Comparison


def describe_aligned(aligned: int) -> str:
    """For how many tasks the file of the best has not the fastest, and why.

    >>> describe_aligned(1)
    '1 task with another record than the fastest, since layout transforms would cost more'
    """
    tasks = pluralize(aligned, "task")
    return f"{tasks} with another record than the fastest, since layout transforms would cost more"


# Why a run ended, if all of its tasks did: each has no configuration left, or stopped early.
EXHAUSTED = "exhausted"
# What ends a run that is not cut short.
COMPLETE = ("trials", "time limit", EXHAUSTED)


@dataclass(frozen=True)
class TuningResult:
    """Result of tuning a network; ``print`` shows it as a table.

    Attributes
    ----------
    rows : list of Row
        One for each task.
    latency : float
        Estimated latency of the network in seconds: the sum over its tuned operators, without the
        untuned ones between them.
    trials, measured : int
        Configurations of this network in the log, and how many of them this call measured.
    seconds : float
        Duration of this call, without building and timing the networks.
    stop_reason : str
        ``"trials"``, ``"time limit"``, ``"exhausted"``, ``"interrupted"``, or the name of an
        exception.
    log_file : Path
        All records: AutoTVM's log, or MetaSchedule's work directory.
    best_file : Path or None
        The best record of each task, for ``autotvm.apply_history_best``; with MetaSchedule the
        folder of a database of its own.
    rejected, unrelated : int
        Malformed lines of the log, which were moved to ``LOG.rejected``, and records of other
        networks or targets.
    comparison : Comparison or None
        Of the compiled network before and after; None if not requested, if no trial succeeded, or
        after an error.
    comparison_error : str
        Why they could not be compared; empty otherwise.
    limit : float
        Latency in seconds that the tuned operators cannot be below; 0 if unknown.
    phases : dict of str to float
        Seconds of this call by phase; "building" while nothing else happens. Phases overlap where
        trials run elsewhere. Empty if unknown.
    aligned : int
        Number of tasks of which `best_file` has another record than the fastest, since layout
        transforms would cost more.
    threads : int
        In which TVM ran the trials on this machine's CPU; 0 if unknown.
    """

    rows: list[Row]
    latency: float
    trials: int
    measured: int
    seconds: float
    stop_reason: str
    log_file: Path
    best_file: Path | None = None
    rejected: int = 0
    unrelated: int = 0
    comparison: Comparison | None = None
    comparison_error: str = ""
    limit: float = 0.0
    phases: dict[str, float] = field(default_factory=dict)
    aligned: int = 0
    threads: int = 0

    def __str__(self) -> str:
        return "\n".join([table(self.rows), *self._summary(), *self._network(), *self._files()])

    @property
    def _works(self) -> bool:
        return any(row.works for row in self.rows)

    def _summary(self) -> list[str]:
        """Trials, time and log."""
        trials = (
            f"{pluralize(self.trials, 'trial')}, {self.measured} of them now in "
            f"{self.seconds:.0f} s"
        )
        lines = [f"{trials}; ended by: {self.stop_reason}"]
        if self.phases:
            longest = sorted(self.phases.items(), key=lambda item: -item[1])
            lines.append(
                "time: "
                + ", ".join(
                    f"{phase} {seconds:.0f} s" for phase, seconds in longest if seconds >= 0.5
                )
            )
        if self._works:
            lines.append(
                f"sum of the tuned operators, as measured: {milliseconds(self.latency)} ms"
            )
        if self.limit:
            share = self.limit / self.latency
            lines.append(
                f"at this machine's limit they would take {milliseconds(self.limit)} ms, "
                f"{share:.0%} of that"
            )
        if self.aligned:
            lines.append(describe_aligned(self.aligned))
        if self.rejected:
            moved = f"{self.log_file}.rejected"
            lines.append(
                f"{pluralize(self.rejected, 'malformed line')} of {self.log_file} moved to {moved}"
            )
        if self.unrelated:
            others = pluralize(self.unrelated, "record")
            lines.append(f"{others} of other networks or targets in {self.log_file} ignored")
        return lines

    def _network(self) -> list[str]:
        """Latencies before and after."""
        if self.comparison_error:
            return [f"the networks could not be compared: {self.comparison_error}"]
        if not self.comparison:
            return []
        lines, (error,) = self.comparison.table(), self.comparison.relative_errors
        lines.append(f"{self.comparison.describe_outputs()}, relative error {error:.1e}")
        if self.comparison.untuned_is_better:
            lines[-1] += ": the best file has the untuned network"
        return lines

    def _files(self) -> list[str]:
        files = [f"log: {self.log_file}"] + (
            [f"best: {self.best_file}"] if self._works and self.best_file else []
        )
        if self.threads:
            files.append(
                f"tuned in {pluralize(self.threads, 'thread')}: set "
                f"TVM_NUM_THREADS={self.threads} where it is deployed"
            )
        return files
