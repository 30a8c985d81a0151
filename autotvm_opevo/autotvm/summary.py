"""What tuning a network came to, as data and as text."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from autotvm_opevo.autotvm.evaluation import Comparison
from autotvm_opevo.display import Row, table


@dataclass(frozen=True)
class NetworkReport:
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
    log_file, best_file : Path
        All records, and the best of each task: both for ``autotvm.apply_history_best``.
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
    best_file: Path
    rejected: int = 0
    foreign: int = 0
    comparison: Comparison | None = None
    problem: str = ""

    def __str__(self) -> str:
        lines = [
            table(self.rows),
            f"{self.trials} trials, {self.measured} of them now in {self.seconds:.0f} s; ended by: {self.stopped}",
            f"estimate of what was tuned: {self.latency * 1e3:.3f} ms",
        ]
        if self.rejected:
            lines.append(f"{self.rejected} lines of {self.log_file} were no records and are in {self.log_file}.rejected")
        if self.foreign:
            lines.append(f"{self.foreign} records in {self.log_file} are of other networks or targets and were left alone")
        if self.problem:
            lines.append(f"the networks could not be compared: {self.problem}")
        if self.comparison:
            before, after = (
                np.quantile(runs, [0.5, 0.25, 0.75]) * 1e3 for runs in (self.comparison.before, self.comparison.after)
            )
            lines += [
                "network      median ms   (quartiles), in turn",
                f"untuned   {before[0]:>12.3f}   ({before[1]:.3f} to {before[2]:.3f})",
                f"tuned     {after[0]:>12.3f}   ({after[1]:.3f} to {after[2]:.3f}), {before[0] / after[0]:.2f} times as fast",
                f"outputs {'match' if self.comparison.outputs_match else 'DIFFER'}, relative error {self.comparison.error:.1e}",
            ]
        lines.append(f"log: {self.log_file}\nbest: {self.best_file}")
        return "\n".join(lines)
