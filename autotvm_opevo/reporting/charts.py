"""Charts of a report, drawn with matplotlib."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

from autotvm_opevo.reporting.figures import BAR, HEIGHT, MAX_TICKS, add_legend, escape_label, named_bars, new_figure, truncate
from autotvm_opevo.reporting.network import TaskInLog
from autotvm_opevo.reporting.style import SERIES
from autotvm_opevo.reporting.trials import Array

_MAX_DOTS = 600
# Up to this many trials, the axis has room for all, however slow.
_MAX_TRIALS_ALL_SHOWN = 48
_MAX_BINS = 40
# An axis of bars reaches this many times as far as the longest of the operators' shortest bars.
_MAX_STRETCH = 4.0
# A line that is broken where nothing was timed for longer, in seconds: between runs.
_LONGEST_UNTIMED = 30.0
# So few batches of trials make no curve over time.
_MIN_BATCHES = 2
# Trials that end within this many seconds of each other are one batch.
_SAME_BATCH = 0.05


def task_progress(
    in_logs: Sequence[TaskInLog], over_time: bool = False, slowdown: Mapping[int, float] | None = None
) -> Figure | None:
    """Draw the best latency so far of a task in each log. If there is only one log, dots are its trials.

    Parameters
    ----------
    in_logs : sequence of TaskInLog
        The index of a log determines its colour.
    over_time : bool
        Plot over the time spent on the task instead of the number of trials.
    slowdown : mapping of int to float, optional
        As in `network_progress`.

    Returns
    -------
    Figure or None
        None if there is nothing to draw: all trials failed, or no log has timestamps.
    """
    curves = [
        one
        for one in in_logs
        if one.task.best < math.inf and len(one.task) > 1 and (not over_time or len(np.unique(one.task.elapsed)) > _MIN_BATCHES)
    ]
    if not curves:
        return None
    scale, unit = _time_unit(max(float(task.elapsed.max()) for _, _, task in curves)) if over_time else (1.0, "trials")
    with new_figure() as (figure, axes):
        for index, label, task in curves:
            order = np.argsort(task.elapsed, kind="stable") if over_time else slice(None)
            x = task.elapsed[order] / scale if over_time else np.arange(1, len(task) + 1)
            latencies = task.latencies[order]
            if len(curves) == 1:
                shown = np.unique(np.linspace(0, len(x) - 1, _MAX_DOTS).astype(int))
                style: dict[str, Any] = {"color": SERIES[index % len(SERIES)], "alpha": 0.5, "markersize": 4.5}
                axes.plot(x[shown], latencies[shown] * 1e3, ".", gid="trials", **style)
            best = np.minimum.accumulate(latencies)
            _plot_steps(axes, index, label, x, best)
            _plot_band(axes, index, x, best, slowdown)
        shown_latencies = [task.latencies for _, _, task in curves]
        shown_latencies += [np.array([task.best / (slowdown or {}).get(index, 1.0)]) for index, _, task in curves]
        _format_best_so_far(axes, shown_latencies, unit)
        add_legend(figure, len(curves))
    return figure


def network_progress(
    curves: Sequence[tuple[int, str, Array]],
    elapsed: Sequence[Array] | None = None,
    slowdown: Mapping[int, float] | None = None,
) -> Figure | None:
    """Draw the total latency of all operators, each with its best configuration so far.

    Parameters
    ----------
    curves : sequence of (int, str, array of float)
        For each log: index, label, and seconds after each trial, infinite until every operator has a successful trial.
    elapsed : sequence of array of float, optional
        For each log, the time in seconds at which its trials ended. Plots over time instead of the number of trials.
    slowdown : mapping of int to float, optional
        How many times as long the same took for a log, by its index: a band reaches to where its curve would be otherwise.

    Returns
    -------
    Figure or None
        None if there is nothing to draw.
    """
    xs = [np.arange(1, len(best) + 1) for _, _, best in curves] if elapsed is None else elapsed
    drawn = [
        (index, label, x[finite], best[finite])
        for (index, label, best), x in zip(curves, xs)
        if len(x) == len(best) and (finite := np.isfinite(best)).sum() > 1
    ]
    if not drawn:
        return None
    scale, unit = (1.0, "trials") if elapsed is None else _time_unit(max(float(x[-1]) for _, _, x, _ in drawn))
    with new_figure() as (figure, axes):
        for index, label, x, best in drawn:
            _plot_steps(axes, index, label, x / scale, best)
            _plot_band(axes, index, x / scale, best, slowdown)
        shown = [best for *_, best in drawn] + [best / (slowdown or {}).get(index, 1.0) for index, *_, best in drawn]
        _format_best_so_far(axes, shown, unit)
        add_legend(figure, len(drawn))
    return figure


def throughput(curves: Sequence[tuple[int, str, Any]]) -> Figure | None:
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
    drawn = [(index, label, elapsed) for index, label, elapsed in curves if len(elapsed) > 1 and elapsed.max() > 0]
    if not drawn:
        return None
    scale, unit = _time_unit(max(float(elapsed.max()) for _, _, elapsed in drawn))
    with new_figure() as (figure, axes):
        for index, label, elapsed in drawn:
            bins = max(2, min(_MAX_BINS // len(drawn), len(elapsed) // 4))
            last, edges = _batch_ends(elapsed), np.linspace(0, elapsed[-1], 1 + bins)
            counts = np.diff(np.interp(edges, np.append(0, elapsed[last]), np.append(0, last + 1)))
            style: dict[str, Any] = {"color": SERIES[index % len(SERIES)], "linewidth": 1.4}
            axes.stairs(counts / np.diff(edges) * 60, edges / scale, label=escape_label(label), **style)
        axes.set_ylim(bottom=0)
        axes.set_xlabel(unit)
        axes.set_ylabel("trials per minute")
        add_legend(figure, len(drawn))
    return figure


def phases(series: Sequence[tuple[str, Mapping[str, float]]]) -> Figure:
    """Draw a bar of each log's seconds by phase, in the order of the first log's.

    Parameters
    ----------
    series : sequence of (str, mapping of str to float)
        For each log: label, and the seconds of each phase.
    """
    names = list(dict.fromkeys(name for _, seconds in series for name in seconds))
    scale, unit = _time_unit(max(sum(seconds.values()) for _, seconds in series))
    with new_figure(height=0.9 + 0.35 * len(series)) as (figure, axes):
        left = np.zeros(len(series))
        for i, name in enumerate(names):
            width = np.array([seconds.get(name, 0.0) / scale for _, seconds in series])
            axes.barh(range(len(series)), width, 0.7, left=left, color=SERIES[i % len(SERIES)], label=escape_label(name))
            left += width
        axes.set_yticks(range(len(series)), [truncate(label, 34) for label, _ in series] if len(series) > 1 else [""])
        axes.invert_yaxis()
        axes.set_xlabel(unit)
        axes.xaxis.set_major_locator(MaxNLocator(MAX_TICKS))
        axes.grid(axis="y", visible=False)
        add_legend(figure, len(names))
    return figure


def drift(curves: Sequence[tuple[int, str, Sequence[tuple[float, float]]]]) -> Figure:
    """Draw the yardstick's latency over time, relative to its median in each log.

    Parameters
    ----------
    curves : sequence of (int, str, sequence of (float, float))
        For each log: index, label, and the yardstick's timestamps and latencies in seconds.
    """
    scale, unit = _time_unit(max(timed[-1][0] - timed[0][0] for _, _, timed in curves))
    with new_figure(height=0.6 * HEIGHT) as (figure, axes):
        for index, label, timed in curves:
            moments, latencies = np.transpose(timed)
            style: dict[str, Any] = {"color": SERIES[index % len(SERIES)], "linewidth": 1.2}
            pauses = 1 + np.flatnonzero(np.diff(moments) > _LONGEST_UNTIMED)
            x = np.insert(moments - moments[0], pauses, np.nan) / scale
            axes.plot(x, np.insert(latencies / np.median(latencies), pauses, np.nan), label=escape_label(label), **style)
        axes.set_ylim(bottom=0)
        axes.set_xlabel(unit)
        axes.set_ylabel("times as long")
        add_legend(figure, len(curves))
    return figure


def _batch_ends(elapsed: Array) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    """Index of the last trial of each batch: results that arrive together were measured since the batch before."""
    return np.flatnonzero(np.append(np.diff(elapsed) > _SAME_BATCH, True))


def operator_latencies(names: Sequence[str], series: Sequence[tuple[str, str, Sequence[float]]]) -> Figure:
    """Draw bars of operators' latencies. Where one would squash the others, the axis ends before it, and it says its latency.

    Parameters
    ----------
    names : sequence of str
        The operators.
    series : sequence of (str, str, sequence of float)
        For each kind of bar: label, colour, and the latency of each operator in milliseconds.
    """
    longest = max(max(values) for *_, values in series)
    limit = _MAX_STRETCH * max(
        (min(filter(None, bars), default=0.0) for bars in zip(*(values for *_, values in series))), default=0.0
    )
    with named_bars(names, len(series)) as (figure, axes, middle):
        for i, (label, color, values) in enumerate(series):
            ys = middle + (i - (len(series) - 1) / 2) * BAR
            axes.barh(ys, values, 0.9 * BAR, color=color, label=escape_label(label))
            for y, value in zip(ys, values):
                if 0 < limit < value:
                    axes.text(0.995 * limit, y, f"{value:.3g} →", ha="right", va="center_baseline", fontsize=6.5)
        if 0 < limit < longest:
            axes.set_xlim(0, limit)
        axes.set_xlabel("ms")
        axes.xaxis.set_major_locator(MaxNLocator(MAX_TICKS))
        add_legend(figure, len(series))
    return figure


def _plot_steps(axes: Any, index: int, label: str, x: Any, best: Array) -> None:
    """Plot a non-increasing step curve; only the points where it changes are drawn."""
    drops = np.flatnonzero(best < np.concatenate([[math.inf], best[:-1]]))
    shown = np.unique([*drops, len(best) - 1])
    color = SERIES[index % len(SERIES)]
    axes.plot(
        x[shown], best[shown] * 1e3, drawstyle="steps-post", color=color, linewidth=1.6, label=escape_label(label), gid="best"
    )


def _plot_band(axes: Any, index: int, x: Any, best: Array, slowdown: Mapping[int, float] | None) -> None:
    """Fill what is between a curve and where it would be if the machine had been as fast as for the first log."""
    if slowdown and index in slowdown:
        shown = np.isfinite(best)
        style: dict[str, Any] = {"step": "post", "color": SERIES[index % len(SERIES)], "alpha": 0.2, "linewidth": 0}
        axes.fill_between(x[shown], best[shown] * 1e3, best[shown] / slowdown[index] * 1e3, **style)


def _format_best_so_far(axes: Any, latencies: Sequence[Array], unit: str) -> None:
    """Label the axes and set limits that show most of the latencies (in seconds), on a logarithmic scale if they vary a lot."""
    finite = [one[np.isfinite(one)] * 1e3 for one in latencies]
    low = min(float(ms.min()) for ms in finite)
    high = max(max(float(ms[0]), float(np.quantile(ms, 0.75 if len(ms) > _MAX_TRIALS_ALL_SHOWN else 1.0))) for ms in finite)
    logarithmic = bool(high > 5 * low)
    if logarithmic:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high > 50 * low else (1, 1.5, 2, 3, 5, 7)))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_locator(NullLocator())
    axes.set_ylim(low * 0.85 if logarithmic else low - 0.06 * (high - low) - 0.01 * low, high * 1.05)
    axes.set_xlabel(unit)
    axes.set_ylabel("best so far, ms" + " (log scale)" * logarithmic)
    axes.xaxis.set_major_locator(MaxNLocator(MAX_TICKS, integer=unit == "trials"))
    axes.set_xlim(left=0)


def _time_unit(seconds: float) -> tuple[float, str]:
    """The unit for a duration: its length in seconds, and its name."""
    if seconds < 180:
        return 1.0, "seconds"
    return (60.0, "minutes") if seconds < 10_800 else (3600.0, "hours")
