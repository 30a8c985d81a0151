"""What a report begins with: of each log a summary, warnings and the verdict, and whether several
can be compared.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

import numpy as np
from scipy import stats

from autotvm_opevo._utils.text import format_duration, milliseconds, pluralize, printable
from autotvm_opevo.reporting.logs import TuningLog, open_logs
from autotvm_opevo.reporting.network import Network
from autotvm_opevo.reporting.verdict import verdict
from autotvm_opevo.tuning.logs import BEST_FILE

# With fewer configurations in both logs, there is no interval of this confidence.
_MIN_SHARED, _CONFIDENCE = 6, 0.95
# A smaller difference does not matter.
_INDIFFERENCE = 0.03
# An interval that reaches farther from 1, as a logarithm, says little.
_CLEAR = 0.1


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
    Converged? Too early to tell: fewer than 64 trials for an operator.
    """
    opened = open_logs(logs)
    network = Network(opened)
    lines = [line for line, _ in compare_with_first(opened)]
    for index, log in enumerate(opened):
        about = about_log(index, log, network)
        lines += [
            "",
            f"{about['label']}: {about['summary']}",
            *(f"warning: {text}" for text in about["warnings"]),
        ]
        for answer in about["verdict"]:
            lines += [
                f"{answer.question} {answer.text}",
                *([f"    {answer.command}"] if answer.command else []),
            ]
    return "\n".join(lines).strip()


def about_log(index: int, log: TuningLog, network: Network) -> dict[str, Any]:
    """What is said of a log: its label, a summary, warnings and the verdict."""
    return {
        "label": log.label,
        "summary": "; ".join(_summary(index, log, network)),
        "warnings": list(_warnings(index, log, network)),
        "verdict": verdict(index, log, network),
    }


def compare_with_first(logs: Sequence[TuningLog]) -> Iterator[tuple[str, bool]]:
    """How comparable each log is with the first, and whether that is bad news."""
    for log in logs[1:]:
        both = f"{logs[0].label} and {log.label}"
        same = compare(log, logs[0])
        basis = f"{pluralize(same.count, 'configuration')} that both have"
        if math.isnan(same.ratio):
            yield (
                f"{both}: {basis}, too few to tell whether the machine was as fast for both",
                False,
            )
            continue
        interval = (
            f"{same.ratio:.2f} times as long for the second ({same.low:.2f} to "
            f"{same.high:.2f}), by {basis}"
        )
        if same.is_unclear:
            yield f"{both} are hard to compare: the same took {interval}", True
        elif same.differs:
            yield f"{both} cannot be compared by their latencies: the same took {interval}", True
        else:
            yield f"{both} can be compared: the same took {interval}", False


def _summary(index: int, log: TuningLog, network: Network) -> Iterator[str]:
    trials = f"{pluralize(len(log), 'trial')} of {pluralize(len(log.tasks), 'task')}"
    if len(log.elapsed) and log.elapsed[-1] > 0:
        first = datetime.fromtimestamp(
            min(float(task.times.min()) for task in log.tasks.values()), timezone.utc
        )
        trials += (
            f" in {format_duration(float(log.elapsed[-1]))}, the first at "
            f"{first:%Y-%m-%d %H:%M} UTC"
        )
    yield trials
    if log.runs.tuners:
        yield f"tuned by {', then '.join(log.runs.tuners)}"
    failed = sum(sum(task.failures.values()) for task in log.tasks.values())
    if failed:
        yield f"{failed} failed"
    if log.runs.latency:
        before, after = log.runs.latency
        yield (
            f"latency of the network {milliseconds(before)} ms before tuning, "
            f"{milliseconds(after)} ms after"
        )


def _warnings(index: int, log: TuningLog, network: Network) -> Iterator[str]:
    if not log.exists:
        yield "this log does not exist yet"
    for count, kind in ((log.malformed, "malformed"), (log.unrelated, "unrelated")):
        if count:
            yield f"{pluralize(count, f'{kind} line')} skipped"
    if len(log.runs.networks) > 1:
        yield (
            f"this log has {len(log.runs.networks)} networks or targets: totals and shares are "
            "of all of them together"
        )
    unsolved = network.count_unsolved(index)
    if unsolved and log.tasks:
        have = "operator has" if unsolved == 1 else "operators have"
        yield f"{unsolved} {have} no successful trial yet: totals and shares leave them out"
    if any(not len(task.elapsed) for task in log.tasks.values()):
        yield "some timestamps are missing, so there are no plots over time"
    if len(log.elapsed) and not log.runs.starts and network.log_count > 1:
        yield "its time begins with the first result: AutoTVM's log does not say how long that took"
    if log.pauses:
        yield (
            f"{pluralize(len(log.pauses), 'pause')} ({format_duration(sum(log.pauses))} in "
            "total) not counted as tuning time"
        )
    if lost := list(dict.fromkeys(map(printable, log.runs.devices_left))):
        yield f"{pluralize(len(lost), 'device')} left while tuning: {', '.join(lost)}"
    if log.has_best_only:
        whole = log.path.name.removesuffix(BEST_FILE)
        if log.path.is_dir():
            whole = f"the folder {log.path.resolve().parent.name}"
        elif not log.path.with_name(whole).exists():
            whole += ".json"
        yield f"this has only the best trial of each task; all trials are in {whole}"


@dataclass(frozen=True)
class Comparability:
    """How many times as long the same took while one log was written as while another was.

    Attributes
    ----------
    ratio, low, high : float
        The median, and its confidence interval; NaN if nothing is known.
    count : int
        Number of configurations that both have, by which this is known.
    """

    ratio: float
    low: float
    high: float
    count: int

    @property
    def is_unclear(self) -> bool:
        """Whether it is not even known how much the difference may be."""
        return not self.differs and not max(-math.log(self.low), math.log(self.high)) <= _CLEAR

    @property
    def differs(self) -> bool:
        """Whether the difference is more than noise, and matters."""
        return (self.low > 1 or self.high < 1) and abs(math.log(self.ratio)) > _INDIFFERENCE


def compare(log: TuningLog, other: TuningLog) -> Comparability:
    """Compare how long the configurations that both logs have took in each, by their median.

    Its interval is that between order statistics, which holds for any distribution.
    """
    common = [(task, other.tasks[key]) for key, task in log.tasks.items() if key in other.tasks]
    ratios = sorted(ratio for task, same in common for ratio in task.ratios(same))
    count = len(ratios)
    if count < _MIN_SHARED:
        return Comparability(math.nan, math.nan, math.nan, count)
    skipped = int(stats.binom.ppf((1 - _CONFIDENCE) / 2, count, 0.5)) - 1
    return Comparability(
        float(np.median(ratios)), float(ratios[skipped]), float(ratios[-1 - skipped]), count
    )
