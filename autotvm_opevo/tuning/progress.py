"""What a tuning run is doing: a table that changes in place on a terminal, one line a round elsewhere. Knows no TVM."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TextIO

from tqdm import tqdm

from autotvm_opevo._utils.text import milliseconds, pluralize


@dataclass(frozen=True)
class Row:
    """One task: its best latency in seconds (infinite while nothing works), its share of the network's, and what went wrong."""

    name: str
    trials: int
    latency: float
    gflops: float
    share: float
    failures: str = ""
    dominant_error: str = ""  # the most common error's message, while all trials fail

    @property
    def works(self) -> bool:
        """Whether any of its trials did."""
        return self.latency < float("inf")

    def line(self, width: int) -> str:
        """As a line of a table whose first column has that width."""
        best = (milliseconds(self.latency), f"{self.gflops:.1f}", f"{self.share:.0%}") if self.works else ("-", "-", "-")
        return _line(width, self.name, str(self.trials), *best, self.failures)


def _line(width: int, task: str, trials: str, ms: str, gflops: str, share: str, failed: str) -> str:
    return f"{task[:width]:<{width}} {trials:>6} {ms:>8} {gflops:>7} {share:>5}  {failed}".rstrip()


def _head(width: int) -> str:
    return _line(width, "task", "trials", "ms", "GFLOPS", "share", "failed")


def _width(rows: Sequence[Row]) -> int:
    """Of the first column: as little as the names need, so that the last one fits on a terminal of 80."""
    return min(44, max((len(row.name) for row in rows), default=4))


def table(rows: Sequence[Row]) -> str:
    """All tasks, with the complaints of those that do not work."""
    width = _width(rows)
    lines = [_head(width)]
    for row in rows:
        lines.append(row.line(width))
        if row.dominant_error:
            lines.append(f"    all of them failed, mostly: {row.dominant_error}")
    return "\n".join(lines)


class ProgressDisplay:
    """Show progress, to be used in a ``with`` statement.

    Parameters
    ----------
    trials, done : int
        All trials, and those that were measured before.
    time_limit : float, optional
        Seconds after which the run ends.
    file : text file, optional
        Where to write: standard error unless given.

    Examples
    --------
    >>> import sys
    >>> with ProgressDisplay(trials=8, file=sys.stdout) as display:
    ...     display.show([Row("dense", 8, 0.002, 16.0, 1.0)], 0, 0.002)
    8/8 trials, network 2.000 ms: dense 8 trials, 2.000 ms, 16.0 GFLOPS, 100% of the network
    """

    def __init__(self, trials: int, done: int = 0, time_limit: float | None = None, file: TextIO | None = None) -> None:
        self._file = file or sys.stderr
        self._trials, self._done, self._time_limit = trials, done, time_limit
        self._start = time.monotonic()
        self._live = self._file.isatty()
        self._bars: list[tqdm[Any]] = []
        self._reported_errors: set[tuple[str, str]] = set()

    def __enter__(self) -> ProgressDisplay:
        return self

    def __exit__(self, *_: object) -> None:
        for bar in reversed(self._bars):
            bar.close()
        self._bars = []

    def show(self, rows: Sequence[Row], current: int, latency: float, end_of_round: bool = True) -> None:
        """Show all tasks, of which `current` is being tuned, and the estimate of the network's latency in seconds.

        On a terminal at any time, elsewhere at the end of a round only.
        """
        trials = sum(row.trials for row in rows)
        if self._live:
            self._redraw(rows, current, latency, trials)
        elif end_of_round:
            row = rows[current]
            best = f"{milliseconds(row.latency)} ms, {row.gflops:.1f} GFLOPS, {row.share:.0%} of the network"
            failed = f", failed: {row.failures}" if row.failures else ""
            left = f", {_clock(self._left(trials))} left" if self._left(trials) else ""
            head = f"{trials}/{pluralize(self._trials, 'trial')}, {_network(rows, latency)}"
            best = best if row.works else "none works"
            self.say(f"{head}: {row.name} {pluralize(row.trials, 'trial')}, {best}{failed}{left}")
        for row in rows:
            if row.dominant_error and (row.name, row.dominant_error) not in self._reported_errors:
                self._reported_errors.add((row.name, row.dominant_error))
                self.say(f"{row.name}: all {pluralize(row.trials, 'trial')} failed, mostly: {row.dominant_error}")

    def say(self, line: str) -> None:
        """A line that stays."""
        tqdm.write(line, file=self._file)

    def _redraw(self, rows: Sequence[Row], current: int, latency: float, trials: int) -> None:
        if not self._bars:
            options: dict[str, Any] = {"file": self._file, "dynamic_ncols": True, "leave": False}
            # tqdm's own time left would not know of a time limit
            bar = "{n_fmt}/{total_fmt} trials |{bar}| {elapsed}{postfix}"
            head = tqdm(total=self._trials, initial=self._done, position=0, bar_format=bar, **options)
            lines = [tqdm(total=0, position=i, bar_format="{desc}", **options) for i in range(1, len(rows) + 2)]
            self._bars = [head, *lines]
            lines[0].set_description_str("  " + _head(_width(rows)))
        head, _, *lines = self._bars
        head.n = min(trials, self._trials)
        left = self._left(trials)
        head.set_postfix_str((f"{_clock(left)} left, " if left else "") + _network(rows, latency))
        for i, (line, row) in enumerate(zip(lines, rows)):
            line.set_description_str(f"{'>' if i == current else ' '} {row.line(_width(rows))}")

    def _left(self, trials: int) -> float:
        """Seconds until the trials or the time run out, at the pace of this run; 0 when unknown."""
        elapsed = time.monotonic() - self._start
        measured = trials - self._done
        left = elapsed / measured * (self._trials - trials) if measured > 0 else float("inf")
        if self._time_limit is not None:
            left = min(left, max(0.0, self._time_limit - elapsed))
        return max(0.0, left) if left < float("inf") else 0.0  # a last round may go beyond


def _network(rows: Sequence[Row], latency: float) -> str:
    """The estimate, and of how much of the network it is one while some tasks had no trial."""
    begun = sum(row.trials > 0 for row in rows)
    return f"network {milliseconds(latency)} ms" + (f" ({begun} of {len(rows)} tasks)" if begun < len(rows) else "")


def _clock(seconds: float) -> str:
    return str(tqdm.format_interval(seconds))
