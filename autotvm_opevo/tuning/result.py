"""The progress of a tuning run and its result, as data and as text. Imports no TVM."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from tqdm import tqdm

from autotvm_opevo._utils.text import milliseconds, pluralize

if TYPE_CHECKING:
    from autotvm_opevo.tuning.comparison import Comparison

# Why a run ended, if all of its tasks did: each has no configuration left, or stopped early.
EXHAUSTED = "exhausted"
# Seconds after which a line is written within a round, too.
_SILENT = 4.0


@dataclass(frozen=True)
class Row:
    """Progress of one task.

    Attributes
    ----------
    name : str
    trials : int
    latency : float
        Best latency in seconds; infinite while no trial has succeeded.
    gflops : float
        Throughput at that latency, in GFLOP/s.
    share : float
        Fraction of the network's latency, between 0 and 1.
    failures : str
        Kinds of errors and how often they occurred.
    dominant_error : str
        The most common error's message while all trials fail; empty otherwise.
    limit : float
        Latency in seconds that no trial can be below; 0 if unknown. The table has it as a
        percentage of `latency`.
    """

    name: str
    trials: int
    latency: float
    gflops: float
    share: float
    failures: str = ""
    dominant_error: str = ""
    limit: float = 0.0

    @property
    def works(self) -> bool:
        """Whether any trial has succeeded."""
        return self.latency < inf

    def format(self, width: int) -> str:
        """Format as a line of a table whose first column has `width` characters."""
        best = ("-", "-", "-", "-")
        if self.works:
            limit = f"{min(1.0, self.limit / self.latency):.0%}" if self.limit else "-"
            best = (milliseconds(self.latency), f"{self.gflops:.1f}", f"{self.share:.0%}", limit)
        return _format_line(width, self.name, str(self.trials), *best, self.failures)


def _format_line(
    width: int, task: str, trials: str, ms: str, gflops: str, share: str, limit: str, failed: str
) -> str:
    numbers = f"{trials:>6} {ms:>7} {gflops:>6} {share:>5} {limit:>5} {failed}"
    return f"{task[:width]:<{width}} {numbers}".rstrip()


def _header(width: int) -> str:
    return _format_line(width, "task", "trials", "ms", "GFLOPS", "share", "bound", "failed")


def _width(rows: Sequence[Row]) -> int:
    """Width of the first column: no wider than the names, so that the table fits on a terminal of
    80 columns.
    """
    return min(42, max((len(row.name) for row in rows), default=4))


def table(rows: Sequence[Row]) -> str:
    """Format all tasks, with the errors of those where every trial failed."""
    width = _width(rows)
    lines = [_header(width)]
    for row in rows:
        lines.append(row.format(width))
        if row.dominant_error:
            lines.append(f"    all of them failed, mostly: {row.dominant_error}")
    return "\n".join(lines)


class ProgressDisplay:
    """Context manager that displays progress.

    Parameters
    ----------
    trials, done : int
        Number of trials in all, and of those measured before.
    time_limit : float, optional
        Seconds after which the run ends.
    file : text file, optional
        Where to write; standard error by default.

    Examples
    --------
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
        self._file = file or sys.stderr
        self._trials, self._done, self._time_limit = trials, done, time_limit
        self._start = self._said = time.monotonic()
        self._live = self._file.isatty()
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
        if self._live:
            self._redraw(rows, current, latency, trials)
        elif end_of_round or time.monotonic() - self._said >= _SILENT:
            self._said = time.monotonic()
            left = self._seconds_left(trials)
            network = (
                f"{trials}/{pluralize(self._trials, 'trial')}, {_format_network(rows, latency)}"
            )
            self.write(
                f"{network}: {_format_task(rows[current])}"
                + (f", {_format_seconds(left)} left" if left else "")
            )
        for row in rows:
            if row.dominant_error and (row.name, row.dominant_error) not in self._reported_errors:
                self._reported_errors.add((row.name, row.dominant_error))
                self.write(
                    f"{row.name}: all {pluralize(row.trials, 'trial')} failed, mostly: "
                    f"{row.dominant_error}"
                )

    def write(self, line: str) -> None:
        """Write a line above the table."""
        tqdm.write(line, file=self._file)

    def _redraw(self, rows: Sequence[Row], current: int, latency: float, trials: int) -> None:
        if not self._bars:
            options: dict[str, Any] = {"file": self._file, "dynamic_ncols": True, "leave": False}
            # tqdm's own estimate of the time left ignores a time limit
            bar_format = "{n_fmt}/{total_fmt} trials |{bar}| {elapsed}{postfix}"
            header = tqdm(
                total=self._trials, initial=self._done, position=0, bar_format=bar_format, **options
            )
            lines = [
                tqdm(total=0, position=i, bar_format="{desc}", **options)
                for i in range(1, len(rows) + 2)
            ]
            self._bars = [header, *lines]
            lines[0].set_description_str(" " + _header(_width(rows)))
        header, _, *lines = self._bars
        header.n = min(trials, self._trials)
        left = self._seconds_left(trials)
        header.set_postfix_str(
            (f"{_format_seconds(left)} left, " if left else "") + _format_network(rows, latency)
        )
        for i, (line, row) in enumerate(zip(lines, rows)):
            line.set_description_str(f"{'>' if i == current else ' '}{row.format(_width(rows))}")

    def _seconds_left(self, trials: int) -> float:
        """Estimated seconds until the trials or the time run out; 0 if unknown."""
        elapsed = time.monotonic() - self._start
        measured = trials - self._done
        left = elapsed / measured * (self._trials - trials) if measured > 0 else inf
        if self._time_limit is not None:
            left = min(left, max(0.0, self._time_limit - elapsed))
        return max(0.0, left) if left < inf else 0.0  # a last round may exceed the budget


def _format_network(rows: Sequence[Row], latency: float) -> str:
    """The network's latency, and how many tasks it covers while some have had no trial."""
    begun = sum(row.trials > 0 for row in rows)
    return f"network {milliseconds(latency)} ms" + (
        f" ({begun} of {len(rows)} tasks)" if begun < len(rows) else ""
    )


def _format_task(row: Row) -> str:
    best = (
        f"{milliseconds(row.latency)} ms, {row.gflops:.1f} GFLOPS, {row.share:.0%} of the network"
    )
    failed = f", failed: {row.failures}" if row.failures else ""
    return (
        f"{row.name} {pluralize(row.trials, 'trial')}, "
        f"{best if row.works else 'none succeeded'}{failed}"
    )


def _format_seconds(seconds: float) -> str:
    return str(tqdm.format_interval(seconds))


def describe_aligned(aligned: int) -> str:
    """For how many tasks the file of the best has not the fastest, and why.

    >>> describe_aligned(1)
    '1 task with another record than the fastest, since layout transforms would cost more'
    """
    tasks = pluralize(aligned, "task")
    return f"{tasks} with another record than the fastest, since layout transforms would cost more"


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
                f"at this machine's roofline bounds they would take {milliseconds(self.limit)} ms, "
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
                f"tuned in {pluralize(self.threads, 'thread')}: set TVM_NUM_THREADS={self.threads} "
                "where it is deployed"
            )
        return files
