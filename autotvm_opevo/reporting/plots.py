"""Plots of a network and of a task over trials and time, with their captions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

from autotvm_opevo._utils.text import pluralize
from autotvm_opevo.reporting.figures import (
    BAR,
    MAX_TICKS,
    RULE,
    SERIES,
    Plot,
    add_legend,
    escape_label,
    named_bars,
    new_figure,
)
from autotvm_opevo.reporting.logs import TuningLog
from autotvm_opevo.reporting.network import Network, TaskInLog, TaskInLogs
from autotvm_opevo.reporting.trials import Array

# Of a larger network, only the slowest operators are shown, and none with a smaller share of the
# latency.
_MAX_BARS, _MIN_SHARE = 24, 0.005
_MAX_DOTS = 600
# Up to this many trials, the axis has room for all, however slow.
_MAX_TRIALS_ALL_SHOWN = 48
_MAX_BINS = 40
# An axis of bars reaches this many times as far as the longest of the operators' shortest bars.
_MAX_STRETCH = 4.0
# So few batches of trials make no curve over time.
_MIN_BATCHES = 2
# Trials that end within this many seconds of each other are one batch.
_SAME_BATCH = 0.05


def overview_plots(network: Network, logs: Sequence[TuningLog]) -> list[Plot]:
    """Plots of all tasks together: total latency, throughput, and latency of each operator."""
    plots = []
    weighting = (
        "weighted by the number of runs in the network"
        if network.has_counts
        else "one run of each, as some counts are unknown"
    )
    if len(network.operators) > 1:
        curves = [(i, log.label, network.best_so_far(i)) for i, log in enumerate(logs)]
        over_trials = draw_total(curves)
        over_time = draw_total(curves, [log.elapsed for log in logs])
        caption = (
            f"Total latency of all operators with their best configurations so far, {weighting}"
        )
        if any(network.operators_in(i) != network.operators for i in range(len(logs))):
            caption += ". The logs do not have the same operators"
        if over_trials:
            plots.append(Plot("total latency over trials", f"{caption}.", over_trials))
        if over_time:
            plots.append(
                Plot(
                    "total latency over time",
                    "The same over tuning time, without pauses.",
                    over_time,
                )
            )
    throughput = draw_throughput([(i, log.label, log.elapsed) for i, log in enumerate(logs)])
    if throughput:
        caption = (
            "Trials per minute. Where there are few, builds or runs took long or timed out, "
            "or the tuner was busy."
        )
        plots.append(Plot("trials per minute", caption, throughput))
    if len(network.operators) > 1:
        plots += _operator_latencies(network, logs, weighting)
    return plots


def _operator_latencies(
    network: Network, logs: Sequence[TuningLog], weighting: str
) -> Iterator[Plot]:
    """Latency of each operator: first and best trial if there is one log, else the best trial in
    each log.
    """
    solved = [operator for operator in network.operators if operator.seconds < math.inf]
    if not solved:
        return
    least = _MIN_SHARE * math.fsum(operator.seconds for operator in solved)
    shown = ([operator for operator in solved if operator.seconds >= least] or solved)[:_MAX_BARS]
    series = [
        (log.label, SERIES[i % len(SERIES)], [_bar(operator.seconds_in(i)) for operator in shown])
        for i, log in enumerate(logs)
    ]
    trials = "best trial in each log"
    if len(logs) == 1:
        _, color, best = series[0]
        first = [_bar(operator.first_seconds_in(0)) for operator in shown]
        series = [("first trial", RULE, first), ("best trial", color, best)]
        trials = "first successful trial and best trial"
    subset = f"; the {len(shown)} slowest of {len(solved)}" if len(solved) > len(shown) else ""
    caption = f"Latency of each operator, {weighting}: {trials}{subset}."
    yield Plot(
        "latency of each operator",
        caption,
        draw_operators([operator.name for operator in shown], series),
    )


def _bar(seconds: float) -> float:
    """Milliseconds; 0 if all trials failed."""
    return seconds * 1e3 if seconds < math.inf else 0.0


def progress_plots(task: TaskInLogs) -> list[Plot]:
    """Plots of a task's best latency so far."""
    over_trials = draw_task(task.in_logs)
    over_time = draw_task(task.in_logs, over_time=True)
    plots = []
    if over_trials:
        caption = "Best latency so far over trials."
        if len(task.in_logs) == 1:
            latencies = task.in_logs[0].task.latencies
            _, highest = over_trials.axes[0].get_ylim()
            beyond = int((latencies[np.isfinite(latencies)] * 1e3 > highest).sum())
            caption += " Each dot is a trial" + (
                f"; {pluralize(beyond, 'slower one')} off the chart." if beyond else "."
            )
        plots.append(Plot("best so far over trials", caption, over_trials))
    if over_time:
        plots.append(
            Plot("best so far over time", "The same over the time spent on this task.", over_time)
        )
    return plots


def draw_task(in_logs: Sequence[TaskInLog], over_time: bool = False) -> Figure | None:
    """Draw the best latency so far of a task in each log. If there is only one log, dots are its
    trials.

    Parameters
    ----------
    in_logs : sequence of TaskInLog
        The index of a log determines its colour.
    over_time : bool
        Plot over the time spent on the task instead of the number of trials.

    Returns
    -------
    Figure or None
        None if there is nothing to draw: all trials failed, or no log has timestamps.
    """
    curves = []
    for index, label, task in in_logs:
        if (
            task.best < math.inf
            and len(task) > 1
            and (not over_time or len(np.unique(task.elapsed)) > _MIN_BATCHES)
        ):
            order = np.argsort(task.elapsed, kind="stable") if over_time else np.arange(len(task))
            curves.append(
                (
                    index,
                    label,
                    task.elapsed[order] if over_time else order + 1.0,
                    task.latencies[order],
                )
            )
    return _draw_best_so_far(curves, over_time, dots=len(curves) == 1)


def draw_total(
    curves: Sequence[tuple[int, str, Array]],
    elapsed: Sequence[Array] | None = None,
) -> Figure | None:
    """Draw the total latency of all operators, each with its best configuration so far.

    Parameters
    ----------
    curves : sequence of (int, str, array of float)
        For each log: index, label, and seconds after each trial, infinite until every operator has
        a successful trial.
    elapsed : sequence of array of float, optional
        For each log, the time in seconds at which its trials ended. Plots over time instead of the
        number of trials.

    Returns
    -------
    Figure or None
        None if there is nothing to draw.
    """
    xs = [np.arange(1.0, len(best) + 1) for _, _, best in curves] if elapsed is None else elapsed
    drawn = [
        (index, label, x[finite], best[finite])
        for (index, label, best), x in zip(curves, xs)
        if len(x) == len(best) and (finite := np.isfinite(best)).sum() > 1
    ]
    return _draw_best_so_far(drawn, elapsed is not None)


def _draw_best_so_far(
    curves: Sequence[tuple[int, str, Array, Array]],
    over_time: bool,
    dots: bool = False,
) -> Figure | None:
    """Draw for each log, given its index, label, and seconds or numbers of trials with their
    latencies, the lowest one so far.
    """
    if not curves:
        return None
    scale, unit = (
        _time_unit(max(float(x[-1]) for _, _, x, _ in curves)) if over_time else (1.0, "trials")
    )
    with new_figure() as (figure, axes):
        for index, label, x, latencies in curves:
            style: dict[str, Any] = {"color": SERIES[index % len(SERIES)]}
            if dots:
                some = np.unique(np.linspace(0, len(x) - 1, _MAX_DOTS).astype(int))
                axes.plot(
                    x[some] / scale,
                    latencies[some] * 1e3,
                    ".",
                    gid="trials",
                    alpha=0.5,
                    markersize=4.5,
                    **style,
                )
            best = np.minimum.accumulate(latencies)
            corners = np.unique(
                [*np.flatnonzero(best < np.append(math.inf, best[:-1])), len(best) - 1]
            )
            steps: dict[str, Any] = {
                "drawstyle": "steps-post",
                "linewidth": 1.6,
                "label": escape_label(label),
                "gid": "best",
            }
            axes.plot(x[corners] / scale, best[corners] * 1e3, **steps, **style)
        _format_best_so_far(axes, [latencies for *_, latencies in curves], unit)
        add_legend(figure, len(curves))
    return figure


def draw_throughput(curves: Sequence[tuple[int, str, Any]]) -> Figure | None:
    """Draw the number of trials per minute over time.

    Parameters
    ----------
    curves : sequence of (int, str, array of float)
        For each log: index, label, and the time in seconds at which its trials ended.

    Returns
    -------
    Figure or None
        None if no log has timestamps.
    """
    drawn = [
        (index, label, elapsed)
        for index, label, elapsed in curves
        if len(elapsed) > 1 and elapsed.max() > 0
    ]
    if not drawn:
        return None
    scale, unit = _time_unit(max(float(elapsed.max()) for _, _, elapsed in drawn))
    with new_figure() as (figure, axes):
        for index, label, elapsed in drawn:
            bins = max(2, min(_MAX_BINS // len(drawn), len(elapsed) // 4))
            # the last trial of each batch: results that arrive together were measured since the
            # batch before
            last = np.flatnonzero(np.append(np.diff(elapsed) > _SAME_BATCH, True))
            edges = np.linspace(0, elapsed[-1], 1 + bins)
            counts = np.diff(np.interp(edges, np.append(0, elapsed[last]), np.append(0, last + 1)))
            style: dict[str, Any] = {"color": SERIES[index % len(SERIES)], "linewidth": 1.4}
            axes.stairs(
                counts / np.diff(edges) * 60, edges / scale, label=escape_label(label), **style
            )
        axes.set_ylim(bottom=0)
        axes.set_xlabel(unit)
        axes.set_ylabel("trials per minute")
        add_legend(figure, len(drawn))
    return figure


def draw_operators(
    names: Sequence[str], series: Sequence[tuple[str, str, Sequence[float]]]
) -> Figure:
    """Draw bars of operators' latencies. Where one would squash the others, the axis ends before
    it, and it says its latency.

    Parameters
    ----------
    names : sequence of str
        The operators.
    series : sequence of (str, str, sequence of float)
        For each kind of bar: label, colour, and the latency of each operator in milliseconds.
    """
    longest = max(max(values) for *_, values in series)
    limit = _MAX_STRETCH * max(
        (min(filter(None, bars), default=0.0) for bars in zip(*(values for *_, values in series))),
        default=0.0,
    )
    with named_bars(names, len(series)) as (figure, axes, middle):
        for i, (label, color, values) in enumerate(series):
            ys = middle + (i - (len(series) - 1) / 2) * BAR
            axes.barh(ys, values, 0.9 * BAR, color=color, label=escape_label(label))
            for y, value in zip(ys, values):
                if 0 < limit < value:
                    axes.text(
                        0.995 * limit,
                        y,
                        f"{value:.3g} →",
                        ha="right",
                        va="center_baseline",
                        fontsize=6.5,
                    )
        if 0 < limit < longest:
            axes.set_xlim(0, limit)
        axes.set_xlabel("ms")
        axes.xaxis.set_major_locator(MaxNLocator(MAX_TICKS))
        add_legend(figure, len(series))
    return figure


def _format_best_so_far(axes: Any, latencies: Sequence[Array], unit: str) -> None:
    """Label the axes and set limits that show most of the latencies (in seconds), on a logarithmic
    scale if they vary a lot.
    """
    finite = [log[np.isfinite(log)] * 1e3 for log in latencies]
    low = min(float(ms.min()) for ms in finite)
    high = max(
        max(float(ms[0]), float(np.quantile(ms, 0.75 if len(ms) > _MAX_TRIALS_ALL_SHOWN else 1.0)))
        for ms in finite
    )
    logarithmic = bool(high > 5 * low)
    if logarithmic:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(
            LogLocator(subs=(1, 2, 5) if high > 50 * low else (1, 1.5, 2, 3, 5, 7))
        )
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_locator(NullLocator())
    axes.set_ylim(
        low * 0.85 if logarithmic else low - 0.06 * (high - low) - 0.01 * low, high * 1.05
    )
    axes.set_xlabel(unit)
    axes.set_ylabel("best so far, ms" + " (log scale)" * logarithmic)
    axes.xaxis.set_major_locator(MaxNLocator(MAX_TICKS, integer=unit == "trials"))
    axes.set_xlim(left=0)


def _time_unit(seconds: float) -> tuple[float, str]:
    """The unit for a duration: its length in seconds, and its name."""
    if seconds < 180:
        return 1.0, "seconds"
    return (60.0, "minutes") if seconds < 10_800 else (3600.0, "hours")
