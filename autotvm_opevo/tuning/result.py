"""What tuning a network came to, as data and as text."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from autotvm_opevo._utils.text import milliseconds, pluralize
from autotvm_opevo.tuning.progress import Row, table
from autotvm_opevo.tuning.speedup import Speedup


@dataclass(frozen=True)
class TuningResult:
    """What tuning a network came to; ``print`` shows it as a table.

    Attributes
    ----------
    rows : list of Row
        One for each task.
    latency : float
        Estimate of the network's latency in seconds: what has been tuned, without what is around it.
    trials, measured : int
        Configurations of this network in the log, and how many of them this call measured.
    seconds : float
        What this call took, without compiling and comparing the networks.
    stopped : str
        Why it ended: ``"trials"``, ``"time limit"``, ``"exhausted"``, ``"interrupted"``, or the name of an error.
    log_file : Path
        All records: AutoTVM's log, or MetaSchedule's work directory.
    best_file : Path or None
        The best of each task, for ``autotvm.apply_history_best``; none with MetaSchedule, whose database knows them.
    rejected, foreign : int
        Lines of the log that were moved to ``LOG.rejected``, and records of other networks or targets.
    comparison : Comparison or None
        The compiled network before and after; None when it was not asked for, nothing works, or there was a problem.
    problem : str
        Why the networks could not be compared; empty when they could.
    """

    rows: list[Row]
    latency: float
    trials: int
    measured: int
    seconds: float
    stopped: str
    log_file: Path
    best_file: Path | None = None
    rejected: int = 0
    unrelated: int = 0
    comparison: Speedup | None = None
    problem: str = ""

    def __str__(self) -> str:
        lines = [
            table(self.rows),
            f"{pluralize(self.trials, 'trial')}, {self.measured} of them now in {self.seconds:.0f} s; ended by: {self.stopped}",
        ]
        works = any(row.works for row in self.rows)
        if works:
            lines.append(f"sum of the tuned operators, as their trials ran: {milliseconds(self.latency)} ms")
        if self.rejected:
            moved = f"{self.log_file}.rejected"
            lines.append(f"{pluralize(self.rejected, 'line')} of {self.log_file} that said nothing to AutoTVM, moved to {moved}")
        if self.unrelated:
            others = pluralize(self.unrelated, "record")
            lines.append(f"{others} of other networks or targets in {self.log_file}, left alone")
        if self.problem:
            lines.append(f"the networks could not be compared: {self.problem}")
        if self.comparison:
            before, after = (np.median(runs) for runs in (self.comparison.before, self.comparison.after))
            lines += [
                "network      median ms   (quartiles), in turn",
                f"untuned   {_quartiles(self.comparison.before)}",
                f"tuned     {_quartiles(self.comparison.after)}, {before / after:.2f} times as fast",
                f"outputs {'match' if self.comparison.outputs_match else 'DIFFER'}, relative error {self.comparison.error:.1e}",
            ]
        lines.append(f"log: {self.log_file}")
        if works and self.best_file:
            lines.append(f"best: {self.best_file}")
        return "\n".join(lines)


def _quartiles(runs: list[float]) -> str:
    low, median, high = (milliseconds(float(seconds)) for seconds in np.quantile(runs, [0.25, 0.5, 0.75]))
    return f"{median:>12}   ({low} to {high})"
