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
    named_bars,
    new_figure,
)
from autotvm_opevo.reporting.trials import Array
from autotvm_opevo.reporting.tuning_log import Operator, TuningLog

# Of a larger network, only the slowest operators are shown.
_MAX_BARS = 24
_MAX_DOTS = 600
# Up to this many trials, the axis has room for all, however slow.
_MAX_TRIALS_ALL_SHOWN = 48
# An axis of bars reaches this many times as far as the longest of the operators' shortest bars.
_MAX_STRETCH = 4.0
# So few batches of trials make no curve over time.
_MIN_BATCHES = 2
# Units of the time, and up to how many seconds each is used.
_TIME_UNITS = ((1.0, "seconds", 180), (60.0, "minutes", 10_800), (3600.0, "hours", math.inf))

# Of a log: seconds or numbers of trials, and latencies in seconds.
Curve = tuple[TuningLog, Array, Array]


def overview_plots(logs: Sequence[TuningLog]) -> list[Plot]:
    """Plots of all tasks together: total latency, and latency of each operator."""
    rows = list(_match_operators(logs))
    if len(rows) < 2:
        return []
    trials: list[Curve] = []
    timed: list[Curve] = []
    for log in logs:
        total = log.best_so_far
        known = np.flatnonzero(np.isfinite(total))
        if len(known) > 1:
            trials.append((log, np.add(known, 1, dtype=float), total[known]))
            if len(log.elapsed):
                timed.append((log, log.elapsed[known], total[known]))
    caption = "Total latency of all operators with their best configurations so far."
    if any(None in row for row in rows):
        caption += " The logs do not have the same operators."
    over_time = (
        "The same over tuning time, without pauses; without a run log it begins with the first "
        "result."
    )
    plots = []
    if trials:
        plots.append(Plot("total latency over trials", caption, draw_best_so_far(trials)))
    if timed:
        plots.append(Plot("total latency over time", over_time, draw_best_so_far(timed, True)))
    return [*plots, *_operator_latencies(rows, logs)]


def _match_operators(logs: Sequence[TuningLog]) -> Iterator[list[Operator | None]]:
    """For each operator, that of each log, None where a log does not have it. Run logs of different
    logs may know different tasks of an operator.
    """
    left = [list(log.operators) for log in logs]
    for i, operators in enumerate(left):
        for operator in operators:
            keys, row = {task.key for task in operator.tasks}, [None] * i + [operator]
            for others in left[i + 1 :]:
                same = (o for o in others if not keys.isdisjoint(task.key for task in o.tasks))
                row.append(match := next(same, None))
                if match:
                    others.remove(match)
            yield row


def _operator_latencies(
    rows: Sequence[list[Operator | None]], logs: Sequence[TuningLog]
) -> Iterator[Plot]:
    """Latency of each operator: best trial in each log; if there is one, also the first trial."""

    def ms(operator: Operator | None, first: bool = False) -> float:
        if operator is None or operator.seconds == math.inf:
            return 0.0
        return 1e3 * (operator.first_seconds if first else operator.seconds)

    def slowest(row: Sequence[Operator | None]) -> float:
        return max(map(ms, row))

    solved = sorted(filter(slowest, rows), key=slowest, reverse=True)
    if not solved:
        return
    shown = solved[:_MAX_BARS]
    series = [
        (SERIES[log.index % len(SERIES)], [ms(row[log.index]) for row in shown]) for log in logs
    ]
    trials = "best trial in each log"
    if len(logs) == 1:
        series = [(RULE, [ms(row[0], first=True) for row in shown]), *series]
        trials = "first successful trial (grey) and best trial"
    subset = f"; the {len(shown)} slowest of {len(solved)}" if len(solved) > len(shown) else ""
    caption = f"Latency of each operator in the network: {trials}{subset}."
    names = []
    for row in shown:
        first, *others = filter(None, row)
        differs = any(operator.count != first.count for operator in others)
        names.append(first.fastest.name if differs else first.name)
    yield Plot("latency of each operator", caption, draw_bars(names, series))


def progress_plots(key: str, logs: Sequence[TuningLog]) -> list[Plot]:
    """Plots of a task's best latency so far; if there is one curve, dots are its trials."""
    known = [(log, log.tasks[key]) for log in logs]
    known = [(log, task) for log, task in known if len(task) > 1 and task.best < math.inf]
    trials = [(log, np.arange(1.0, len(task) + 1), task.latencies) for log, task in known]
    timed = [
        (log, task.elapsed, task.latencies)
        for log, task in known
        if len(np.unique(task.elapsed)) > _MIN_BATCHES
    ]
    plots = []
    if trials:
        caption = "Best latency so far over trials."
        figure = draw_best_so_far(trials, dots=len(trials) == 1)
        if len(trials) == 1:
            ((_, _, latencies),) = trials
            beyond = (latencies * 1e3 > figure.axes[0].get_ylim()[1]) & np.isfinite(latencies)
            off = f"; {pluralize(beyond.sum(), 'slower one')} off the chart" if beyond.any() else ""
            caption += f" Each dot is a trial{off}."
        plots.append(Plot("best so far over trials", caption, figure))
    if timed:
        caption = "The same over the time spent on this task."
        figure = draw_best_so_far(timed, over_time=True, dots=len(timed) == 1)
        plots.append(Plot("best so far over time", caption, figure))
    return plots


def draw_best_so_far(
    curves: Sequence[Curve], over_time: bool = False, dots: bool = False
) -> Figure:
    """Draw the lowest latency so far in each log, and dots for all latencies."""
    scale, unit = 1.0, "trials"
    if over_time:
        longest = max(float(x[-1]) for _, x, _ in curves)
        scale, unit = next((scale, unit) for scale, unit, end in _TIME_UNITS if longest < end)
    with new_figure() as (figure, axes):
        for log, x, latencies in curves:
            color = SERIES[log.index % len(SERIES)]
            if dots:
                some = np.unique(np.linspace(0, len(x) - 1, _MAX_DOTS).astype(int))
                dot: Any = {"gid": "trials", "alpha": 0.5, "markersize": 4.5, "color": color}
                axes.plot(x[some] / scale, latencies[some] * 1e3, ".", **dot)
            best = np.minimum.accumulate(latencies)
            falls = np.flatnonzero(best < np.append(math.inf, best[:-1]))
            corners = np.unique([*falls, len(best) - 1])
            line: Any = {"drawstyle": "steps-post", "linewidth": 1.6, "gid": "best", "color": color}
            axes.plot(x[corners] / scale, best[corners] * 1e3, **line)
        _format_axes(axes, [latencies for *_, latencies in curves], unit)
    return figure


def _format_axes(axes: Any, latencies: Sequence[Array], unit: str) -> None:
    """Label the axes and show most of the latencies, logarithmically if they vary a lot."""
    low, high = math.inf, 0.0
    for ms in (log[np.isfinite(log)] * 1e3 for log in latencies):
        most = 0.75 if len(ms) > _MAX_TRIALS_ALL_SHOWN else 1.0
        low, high = min(low, float(ms.min())), max(high, float(ms[0]), float(np.quantile(ms, most)))
    bottom, label = low - 0.06 * (high - low) - 0.01 * low, "best so far, ms"
    if high > 5 * low:
        bottom, label = low * 0.85, f"{label} (log scale)"
        axes.set_yscale("log")
        subs = (1, 2, 5) if high > 50 * low else (1, 1.5, 2, 3, 5, 7)
        axes.yaxis.set_major_locator(LogLocator(subs=subs))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_locator(NullLocator())
    axes.set_ylim(bottom, high * 1.05)
    axes.set_xlabel(unit)
    axes.set_ylabel(label)
    axes.xaxis.set_major_locator(MaxNLocator(MAX_TICKS, integer=unit == "trials"))
    axes.set_xlim(left=0)


def draw_bars(names: Sequence[str], series: Sequence[tuple[str, Sequence[float]]]) -> Figure:
    """Draw bars of operators' latencies: for each kind of bar its colour, and the latency of each
    operator in milliseconds, 0 where there is none.

    Where one would squash the others, the axis ends before it, and it says its latency.
    """
    values = np.array([values for _, values in series])
    shortest = np.where(values > 0, values, math.inf).min(axis=0)
    limit = _MAX_STRETCH * shortest[shortest < math.inf].max(initial=0.0)
    with named_bars(names, len(series)) as (figure, axes, middle):
        for i, (color, own) in enumerate(series):
            ys = middle + (i - (len(series) - 1) / 2) * BAR
            axes.barh(ys, own, 0.9 * BAR, color=color)
            for y, value in zip(ys, own):
                if value > limit > 0:
                    place: Any = {"ha": "right", "va": "center_baseline", "fontsize": 6.5}
                    axes.text(0.995 * limit, y, f"{value:.3g} →", **place)
        if values.max() > limit > 0:
            axes.set_xlim(0, limit)
        axes.set_xlabel("ms")
        axes.xaxis.set_major_locator(MaxNLocator(MAX_TICKS))
    return figure
