"""What a report begins with: a summary of each log, warnings, and whether several compare."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone

import numpy as np

from autotvm_opevo._utils.text import format_duration, milliseconds, pluralize
from autotvm_opevo.reporting.logs import open_logs
from autotvm_opevo.reporting.tuning_log import TuningLog
from autotvm_opevo.reporting.verdict import verdict
from autotvm_opevo.tuning.race import Estimate

# With fewer configurations in both logs, there is no interval of this confidence.
_MIN_SHARED, _CONFIDENCE = 6, 0.95
# Latencies are comparable if they are known to differ by no more.
_INDIFFERENCE = 0.1


def summarize(*logs: str | os.PathLike[str]) -> str:
    """What a report begins with, as text: of each log a summary and the verdict, and whether
    several can be compared.

    Parameters
    ----------
    *logs : str or path
        As for `report`.

    Returns
    -------
    str
        One or more lines.

    Raises
    ------
    ValueError
        If a path is not a log or has no trial.
    OSError
        If a log cannot be read.

    Examples
    --------
    >>> import json, tempfile
    >>> from pathlib import Path
    >>> line = {"input": ["llvm", "dense", [["TENSOR", [1, 8], "float32"]], {}], "version": 0.2,
    ...         "config": {"index": 3, "code_hash": None, "entity": [["tile_x", "sp", [-1, 4]]]},
    ...         "result": [[0.002], 0, 1.5, 1795260407.0]}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     log = Path(folder) / "log.json"
    ...     _ = log.write_text(json.dumps(line))
    ...     print(summarize(log).splitlines()[1])
    Converged? Too early to tell: fewer than 64 trials per operator.
    """
    opened = open_logs(logs)
    lines = [line for line, _ in compare_with_first(opened)]
    for log in opened:
        lines += ["", f"{log.label}: {summary(log)}"]
        lines += [f"warning: {text}" for text in warnings(log)]
        lines += [f"{question} {answer}" for question, answer in verdict(log).items()]
    return "\n".join(lines).strip()


def summary(log: TuningLog) -> str:
    """Trials, time and latency of a log."""
    trials = f"{pluralize(len(log), 'trial')} of {pluralize(len(log.tasks), 'task')}"
    if log.has_best_only:
        return trials
    if log.duration:
        trials += f" in {format_duration(log.duration)}"
    if len(log.elapsed):
        first = min(task.trials[0].time for task in log.tasks.values())
        trials += f", the first at {datetime.fromtimestamp(first, timezone.utc):%Y-%m-%d %H:%M} UTC"
    parts = [trials]
    if log.runs.tuners:
        parts.append(f"tuned by {', then '.join(log.runs.tuners)}")
    if failed := sum(sum(task.failures.values()) for task in log.tasks.values()):
        parts.append(f"{failed} failed")
    if log.runs.latency:
        before, after = map(milliseconds, log.runs.latency)
        network = f"latency of the network {before} ms before tuning, {after} ms after"
        # Else the operators are not the network's.
        if len(log.runs.networks) == 1 and log.solved and not log.unsolved:
            share = log.runs.latency[1] / log.seconds
            network += f" ({share:.2f} times the sum of its tuned operators)"
        if speedup := log.runs.speedup:
            ratio = f"{speedup.value:.2f} times as fast"
            network += f", {ratio} ({speedup.low:.2f} to {speedup.high:.2f})"
        parts.append(network)
    return "; ".join(parts)


def warnings(log: TuningLog) -> Iterator[str]:
    """What is wrong with a log, or has to be known to read its numbers."""
    for count, kind in ((log.malformed, "malformed"), (log.unrelated, "unrelated")):
        if count:
            yield f"{pluralize(count, f'{kind} line')} skipped"
    if log.has_best_only:
        where = "the folder around it" if log.path.is_dir() else "the log beside it"
        yield f"this has only the best trial of each task; {where} has all trials"
        return
    if len(log.runs.networks) > 1:
        several = f"{len(log.runs.networks)} networks or targets"
        yield f"this log has {several}: totals and shares are of all of them together"
    if not len(log.elapsed):
        yield "some timestamps are missing, so there are neither times nor plots over time"
    if log.pauses:
        total = format_duration(sum(log.pauses))
        yield f"{pluralize(len(log.pauses), 'pause')} ({total} in total) not counted as tuning time"


def compare_with_first(logs: Sequence[TuningLog]) -> Iterator[tuple[str, bool]]:
    """How comparable each log is with the first, and whether that is bad news."""
    for log in logs[1:]:
        both, (ratio, count) = f"{logs[0].label} and {log.label}", latency_ratio(log, logs[0])
        shared = pluralize(count, "configuration")
        if not log.tasks.keys() & logs[0].tasks.keys():
            yield f"{both} have no task in common", False
        elif ratio is None:
            few = "too few to tell whether the machine was as fast for both"
            yield f"{both} have {shared} in common, {few}", False
        else:
            took = (
                f"the same took {ratio.value:.2f} times as long for the second ({ratio.low:.2f} to "
                f"{ratio.high:.2f}), by {shared} that both have"
            )
            if ratio.difference <= _INDIFFERENCE:
                yield f"{both} can be compared: {took}", False
            else:
                yield f"{both}: latencies may not be comparable, {took}", True


def latency_ratio(log: TuningLog, other: TuningLog) -> tuple[Estimate | None, int]:
    """How many times as long the same took in one log as in another: the median, unless they have
    too few configurations in common, and their number. The interval is that between order
    statistics, which holds for any distribution.
    """
    ratios = sorted(
        latency / same
        for key in log.tasks.keys() & other.tasks.keys()
        for configuration, latency in log.tasks[key].measured.items()
        if max(latency, same := other.tasks[key].measured.get(configuration, math.inf)) < math.inf
    )
    count = len(ratios)
    if count < _MIN_SHARED:
        return None, count
    from scipy.stats import binom  # takes longer to import than a log to read

    skipped = int(binom.ppf((1 - _CONFIDENCE) / 2, count, 0.5)) - 1
    return Estimate(float(np.median(ratios)), ratios[skipped], ratios[-1 - skipped]), count
