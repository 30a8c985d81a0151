"""The progress of a tuning run and its result, as data and as text. Imports no TVM."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from tqdm import tqdm

from autotvm_opevo._utils import timeouts
from autotvm_opevo._utils.text import milliseconds, pluralize

if TYPE_CHECKING:
    from autotvm_opevo.tuning.comparison import Comparison

# Why a run ended, if all of its tasks did: each has no configuration left, or stopped early.
EXHAUSTED = "exhausted"
# More trials than any time limit allows: as many as there is time for. Fits into TVM's integers.
UNLIMITED = 10**9


@dataclass(frozen=True)
class Row:
    """Progress of one task, by name."""

    name: str
    trials: int
    latency: float  # of the best, in seconds; infinite while no trial has succeeded
    gflops: float  # GFLOP/s at that latency
    share: float  # of the network's latency, between 0 and 1
    failures: str = ""  # kinds of errors, and how often they occurred
    dominant_error: str = ""  # the most common one's message while all trials fail
    bound: float = 0.0  # seconds that no trial can be below; 0 if unknown

    @property
    def works(self) -> bool:
        """Whether any trial has succeeded."""
        return self.latency < inf


def _lines(rows: Sequence[Row]) -> list[str]:
    """A table, its head first, that fits on a terminal of 80 columns."""
    cells = [("task", "trials", "ms", "GFLOPS", "share", "bound", "failed")]
    for row in rows:
        best = ("-", "-", "-", "-")
        if row.works:
            bound = f"{min(1.0, row.bound / row.latency):.0%}" if row.bound else "-"
            best = (milliseconds(row.latency), f"{row.gflops:.1f}", f"{row.share:.0%}", bound)
        cells.append((row.name, str(row.trials), *best, row.failures))
    width = min(42, max((len(row.name) for row in rows), default=4))
    return [
        f"{task[:width]:<{width}} {trials:>6} {ms:>7} {gflops:>6} {share:>5} {bound:>5} "
        f"{failed}".rstrip()
        for task, trials, ms, gflops, share, bound, failed in cells
    ]


def table(rows: Sequence[Row]) -> str:
    """Format all tasks, with the errors of those where every trial failed."""
    head, *others = _lines(rows)
    lines = [head]
    for row, line in zip(rows, others):
        lines.append(line)
        if row.dominant_error:
            lines.append(f"    all of them failed, mostly: {row.dominant_error}")
    return "\n".join(lines)


class ProgressDisplay:
    """Context manager that displays progress: of `trials`, of which `done` were measured before, or
    until a limit in seconds; on standard error by default. That this cannot be written, or that
    there is none, ends no run.

    >>> import sys
    >>> with ProgressDisplay(trials=8, file=sys.stdout) as display:
    ...     display.show([Row("dense", 8, 0.002, 16.0, 1.0)], 0, 0.002)
    8/8 trials, network 2.000 ms: dense 8 trials, 2.000 ms, 16.0 GFLOPS, 100% of the network
    """

    def __init__(
        self,
        trials: int,
        done: int = 0,
        time_limit: float | None = None,
        file: TextIO | None = None,
    ) -> None:
        self._file: TextIO | None = file or sys.stderr  # none in a daemon
        self._trials, self._done, self._time_limit = trials, done, time_limit
        self._start = self._said = time.monotonic()
        closed = getattr(self._file, "closed", False)
        self._live = not closed and getattr(self._file, "isatty", bool)()
        self._bars: list[tqdm[Any]] = []
        self._reported_errors: set[tuple[str, str]] = set()

    def __enter__(self) -> ProgressDisplay:
        return self

    def __exit__(self, *_: object) -> None:
        for bar in reversed(self._bars):
            bar.close()
        self._bars = []

    def show(
        self, rows: Sequence[Row], current: int, latency: float, end_of_round: bool = True
    ) -> None:
        """Show all tasks, of which `current` is being tuned, and the network's estimated `latency`
        in seconds.

        A terminal is redrawn on every call; elsewhere a line is written at the end of a round, and
        every few seconds of a longer one.
        """
        trials = sum(row.trials for row in rows)
        left, network = self._left(trials), f"network {milliseconds(latency)} ms"
        begun = sum(row.trials > 0 for row in rows)
        if begun < len(rows):  # the latency is of these alone
            network += f" ({begun} of {len(rows)} tasks)"
        if self._live:
            self._redraw(rows, current, trials, f"{left}, {network}" if left else network)
        elif end_of_round or time.monotonic() - self._said >= timeouts.SILENT:
            self._said, row = time.monotonic(), rows[current]
            best = (
                f"{milliseconds(row.latency)} ms, {row.gflops:.1f} GFLOPS, "
                f"{row.share:.0%} of the network"
            )
            task = [
                f"{row.name} {pluralize(row.trials, 'trial')}",
                best if row.works else "none succeeded",
                f"failed: {row.failures}" if row.failures else "",
                left,
            ]
            of_all = f"{trials}/{pluralize(self._trials, 'trial')}"
            made = of_all if self._trials != UNLIMITED else pluralize(trials, "trial")
            self.write(f"{made}, {network}: {', '.join(filter(None, task))}")
        for row in rows:
            if row.dominant_error and (row.name, row.dominant_error) not in self._reported_errors:
                self._reported_errors.add((row.name, row.dominant_error))
                self.write(
                    f"{row.name}: all {pluralize(row.trials, 'trial')} failed, mostly: "
                    f"{row.dominant_error}"
                )

    def write(self, line: str) -> None:
        """Write a line above the table."""
        if self._file is not None:
            with suppress(OSError, ValueError):  # who read it has ended, or the terminal is closed
                tqdm.write(line, file=self._file)

    def _redraw(self, rows: Sequence[Row], current: int, trials: int, text: str) -> None:
        head, *lines = _lines(rows)
        if not self._bars:
            options: dict[str, Any] = {"file": self._file, "dynamic_ncols": True, "leave": False}
            of_all = " trials" if self._trials == UNLIMITED else "/{total_fmt} trials |{bar}|"
            # tqdm's own estimate of the time left ignores a time limit
            bar_format = f"{{n_fmt}}{of_all} {{elapsed}}{{postfix}}"
            bar = tqdm(total=self._trials, initial=self._done, bar_format=bar_format, **options)
            self._bars = [
                bar,
                *(tqdm(total=0, bar_format="{desc}", **options) for _ in [head, *rows]),
            ]
        bar, *others = self._bars
        bar.n = min(trials, self._trials)
        bar.set_postfix_str(text)
        marks = [">" if i == current else " " for i in range(-1, len(rows))]
        for other, mark, line in zip(others, marks, [head, *lines]):
            other.set_description_str(mark + line)

    def _left(self, trials: int) -> str:
        """About how long it is until the trials or the time run out; empty if unknown."""
        elapsed = time.monotonic() - self._start
        measured = trials - self._done
        left = elapsed / measured * (self._trials - trials) if measured > 0 else inf
        if self._time_limit is not None:
            left = min(left, max(0.0, self._time_limit - elapsed))
        # a last round may exceed the budget
        return f"{tqdm.format_interval(left)} left" if 0 < left < inf else ""


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
    bound : float
        Latency in seconds that the tuned operators cannot be below. An operator whose own is
        unknown counts as measured; 0 if they are more than 5% of the latency.
    phases : dict of str to float
        Seconds of this call by phase; "building" while nothing else happens. Phases overlap where
        trials run elsewhere. Empty if unknown.
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
    bound: float = 0.0
    phases: dict[str, float] = field(default_factory=dict)
    threads: int = 0

    def __str__(self) -> str:
        log, works = self.log_file, any(row.works for row in self.rows)
        lines = [
            table(self.rows),
            f"{pluralize(self.trials, 'trial')}, {self.measured} of them now in "
            f"{self.seconds:.0f} s; ended by: {self.stop_reason}",
        ]
        if self.phases:
            longest = sorted(self.phases.items(), key=lambda item: -item[1])
            times = [f"{phase} {seconds:.0f} s" for phase, seconds in longest if seconds >= 0.5]
            lines.append(f"time: {', '.join(times)}")
        if works:
            lines.append(
                f"sum of the tuned operators, as measured: {milliseconds(self.latency)} ms"
            )
        if self.bound:
            lines.append(
                f"at this machine's roofline bounds they would take {milliseconds(self.bound)} ms, "
                f"{self.bound / self.latency:.0%} of that"
            )
        if self.rejected:
            malformed = pluralize(self.rejected, "malformed line")
            lines.append(f"{malformed} of {log} moved to {log}.rejected")
        if self.unrelated:
            others = pluralize(self.unrelated, "record")
            lines.append(f"{others} of other networks or targets in {log} ignored")
        if self.comparison_error:
            lines.append(f"the networks could not be compared: {self.comparison_error}")
        elif self.comparison:
            (error,) = self.comparison.relative_errors
            outputs = f"{self.comparison.describe_outputs()}, relative error {error:.1e}"
            if self.comparison.untuned_is_better:
                outputs += ": the best file has the untuned network"
            lines += [*self.comparison.table(), outputs]
        lines.append(f"log: {log}")
        if works and self.best_file:
            lines.append(f"best: {self.best_file}")
        if self.threads:
            lines.append(
                f"tuned in {pluralize(self.threads, 'thread')}: set TVM_NUM_THREADS={self.threads} "
                "where it is deployed"
            )
        return "\n".join(lines)
