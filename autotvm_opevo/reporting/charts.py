"""Charts of a report, drawn with matplotlib."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator
from scipy.spatial.distance import pdist

from autotvm_opevo._utils.text import milliseconds, pluralize
from autotvm_opevo.reporting.knob_graphs import KnobGraph
from autotvm_opevo.reporting.network import TaskInLog
from autotvm_opevo.reporting.style import FITNESS, INK, PAPER, QUIET, RULE, SERIES, STYLE
from autotvm_opevo.reporting.timing import Array
from autotvm_opevo.reporting.values import ValueStats

# Inches: small, so that text is legible on a phone, where a chart is as wide as the screen.
_WIDTH, _HEIGHT, _GRAPH = 4.2, 2.6, 3.4
_MAX_DOTS = 600
# Up to this many trials, the axis has room for all, however slow.
_MAX_TRIALS_ALL_SHOWN = 48
_MAX_BINS = 40
# Trials that end within this many seconds of each other are one batch.
_SAME_BATCH = 0.05
# More tick labels overlap on a phone.
_MAX_TICKS = 6
# More series have no legend; the page lists the logs anyway.
_MAX_LEGEND = 6
# Larger graphs have only their best vertex labelled.
_MAX_LABELS = 12
# Minimum size of a vertex in square points, and margin around a graph as a fraction of it.
_MIN_VERTEX, _MARGIN = 6.0, 0.12


def task_progress(in_logs: Sequence[TaskInLog], over_time: bool = False) -> Figure | None:
    """Draw the best latency so far of a task in each log. If there is only one log, dots are its trials.

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
    curves = [
        one for one in in_logs if one.task.best < math.inf and len(one.task) > 1 and (len(one.task.elapsed) or not over_time)
    ]
    if not curves:
        return None
    scale, unit = _time_unit(max(float(task.elapsed.max()) for _, _, task in curves)) if over_time else (1.0, "trials")
    with _new_figure() as (figure, axes):
        for index, label, task in curves:
            order = np.argsort(task.elapsed, kind="stable") if over_time else slice(None)
            x = task.elapsed[order] / scale if over_time else np.arange(1, len(task) + 1)
            latencies = task.latencies[order]
            if len(curves) == 1:
                shown = np.unique(np.linspace(0, len(x) - 1, _MAX_DOTS).astype(int))
                style: dict[str, Any] = {"color": SERIES[index % len(SERIES)], "alpha": 0.5, "markersize": 4.5}
                axes.plot(x[shown], latencies[shown] * 1e3, ".", gid="trials", **style)
            _plot_steps(axes, index, label, x, np.minimum.accumulate(latencies))
        _format_best_so_far(axes, [task.latencies for _, _, task in curves], unit)
        _add_legend(figure, len(curves))
    return figure


def network_progress(
    curves: Sequence[tuple[int, str, Array]],
    elapsed: Sequence[Array] | None = None,
    slowness: Mapping[int, float] | None = None,
) -> Figure | None:
    """Draw the total latency of all operators, each with its best configuration so far.

    Parameters
    ----------
    curves : sequence of (int, str, array of float)
        For each log: index, label, and seconds after each trial, infinite until every operator has a successful trial.
    elapsed : sequence of array of float, optional
        For each log, the time in seconds at which its trials ended. Plots over time instead of the number of trials.
    slowness : mapping of int to float, optional
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
    with _new_figure() as (figure, axes):
        for index, label, x, best in drawn:
            _plot_steps(axes, index, label, x / scale, best)
            if slowness and index in slowness:
                style: dict[str, Any] = {"step": "post", "color": SERIES[index % len(SERIES)], "alpha": 0.2, "linewidth": 0}
                axes.fill_between(x / scale, best * 1e3, best / slowness[index] * 1e3, **style)
        shown = [best for *_, best in drawn] + [best / (slowness or {}).get(index, 1.0) for index, *_, best in drawn]
        _format_best_so_far(axes, shown, unit)
        _add_legend(figure, len(drawn))
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
    with _new_figure() as (figure, axes):
        for index, label, elapsed in drawn:
            bins = max(2, min(_MAX_BINS // len(drawn), len(elapsed) // 4))
            last, edges = _batch_ends(elapsed), np.linspace(0, elapsed[-1], 1 + bins)
            counts = np.diff(np.interp(edges, np.append(0, elapsed[last]), np.append(0, last + 1)))
            style: dict[str, Any] = {"color": SERIES[index % len(SERIES)], "linewidth": 1.4}
            axes.stairs(counts / np.diff(edges) * 60, edges / scale, label=_label(label), **style)
        axes.set_ylim(bottom=0)
        axes.set_xlabel(unit)
        axes.set_ylabel("trials per minute")
        _add_legend(figure, len(drawn))
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
    with _new_figure(height=0.9 + 0.35 * len(series)) as (figure, axes):
        left = np.zeros(len(series))
        for i, name in enumerate(names):
            width = np.array([seconds.get(name, 0.0) / scale for _, seconds in series])
            axes.barh(range(len(series)), width, 0.7, left=left, color=SERIES[i % len(SERIES)], label=_label(name))
            left += width
        axes.set_yticks(range(len(series)), [_truncate(label, 34) for label, _ in series] if len(series) > 1 else [""])
        axes.invert_yaxis()
        axes.set_xlabel(unit)
        axes.xaxis.set_major_locator(MaxNLocator(_MAX_TICKS))
        axes.grid(axis="y", visible=False)
        _add_legend(figure, len(names))
    return figure


def drift(curves: Sequence[tuple[int, str, Sequence[tuple[float, float]]]]) -> Figure:
    """Draw the yardstick's latency over time, relative to its median in each log.

    Parameters
    ----------
    curves : sequence of (int, str, sequence of (float, float))
        For each log: index, label, and the yardstick's timestamps and latencies in seconds.
    """
    scale, unit = _time_unit(max(timed[-1][0] - timed[0][0] for _, _, timed in curves))
    with _new_figure(height=0.6 * _HEIGHT) as (figure, axes):
        for index, label, timed in curves:
            moments, latencies = np.transpose(timed)
            style: dict[str, Any] = {"color": SERIES[index % len(SERIES)], "linewidth": 1.2}
            axes.plot((moments - moments[0]) / scale, latencies / np.median(latencies), label=_label(label), **style)
        axes.set_ylim(bottom=0)
        axes.set_xlabel(unit)
        axes.set_ylabel("times as long")
        _add_legend(figure, len(curves))
    return figure


def _batch_ends(elapsed: Array) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    """Index of the last trial of each batch: results that arrive together were measured since the batch before."""
    return np.flatnonzero(np.append(np.diff(elapsed) > _SAME_BATCH, True))


def operator_latencies(names: Sequence[str], series: Sequence[tuple[str, str, Sequence[float]]]) -> Figure:
    """Draw bars of operators' latencies.

    Parameters
    ----------
    names : sequence of str
        The operators.
    series : sequence of (str, str, sequence of float)
        For each kind of bar: label, colour, and the latency of each operator in milliseconds.
    """
    with _new_figure(height=0.7 + (0.14 + 0.08 * len(series)) * len(names)) as (figure, axes):
        y, height = np.arange(len(names)), 0.8 / len(series)
        for i, (label, color, values) in enumerate(series):
            axes.barh(y + (i - (len(series) - 1) / 2) * height, values, 0.9 * height, color=color, label=_label(label))
        axes.set_yticks(y, [_truncate(name, 34) for name in names])
        axes.invert_yaxis()
        axes.set_xlabel("ms")
        axes.xaxis.set_major_locator(MaxNLocator(_MAX_TICKS))
        axes.grid(axis="y", visible=False)
        _add_legend(figure, len(series))
    return figure


def knob_effects(effects: Mapping[str, float]) -> Figure:
    """Draw a bar for the share of the variance that each knob explains by itself."""
    names = sorted(effects, key=lambda name: -effects[name])
    with _new_figure(height=0.7 + 0.2 * len(names)) as (figure, axes):
        axes.barh(range(len(names)), [100 * effects[name] for name in names], 0.7, color=SERIES[0])
        axes.set_yticks(range(len(names)), [_truncate(name, 34) for name in names])
        axes.invert_yaxis()
        axes.set_xlim(0, 100)
        axes.set_xlabel("% of the variance")
        axes.grid(axis="y", visible=False)
    return figure


def knob(graph: KnobGraph, best: float) -> Figure:
    """Draw a knob's graph, like the paper's Figure 1, with vertices coloured by their best trial.

    Vertices without trials are hollow; those where all trials failed are crosses.

    Parameters
    ----------
    graph : KnobGraph
    best : float
        The task's best latency in seconds. Its ratio to a vertex's best latency determines the colour, from `FITNESS`.
    """
    positions, values = graph.positions, list(graph.topology)
    width, height = np.ptp(positions, axis=0)
    flat = height == 0.0
    inches = 0.9 if flat else float(np.clip(_GRAPH * (height + 0.4) / (width + 0.4), 1.2, 0.8 * _GRAPH))
    with _new_figure(_GRAPH, inches) as (figure, axes):
        axes.set_axis_off()
        if not flat:
            axes.set_aspect("equal")
        edges = np.array(list(graph.edges), dtype=int).reshape(-1, 2)
        gaps = np.full(len(edges), np.nan)  # one path with gaps is a tenth of the size of many paths
        path = [np.column_stack([positions[edges[:, 0], k], positions[edges[:, 1], k], gaps]).ravel() for k in (0, 1)]
        axes.plot(*path, color=RULE, linewidth=0.7, zorder=1)
        fitness = np.array([best / stats.best if (stats := graph.stats.get(value)) else math.nan for value in values])
        size = 160 if len(values) <= _MAX_LABELS else float(np.clip(5000 / len(values), 14, 90))
        if len(values) > 1:  # no vertex may hide another; 65 of an inch's 72 points leave room for labels
            room = min((inch - 0.1) / extent for inch, extent in ((_GRAPH, width), (inches, height)) if extent > 0)
            size = min(size, max(_MIN_VERTEX, (65 * room / (1 + 2 * _MARGIN) * float(pdist(positions).min())) ** 2))
        for marker, subset, colors in (
            ("o", np.isnan(fitness), None),
            ("X", fitness == 0, RULE),
            ("o", fitness > 0, [FITNESS[round(10 * ratio)] for ratio in fitness[fitness > 0]]),
        ):
            axes.scatter(
                *positions[subset].T,
                s=size,
                marker=marker,
                color=PAPER if colors is None else colors,
                edgecolor=INK if colors is not None else QUIET,
                linewidth=0.6,
                zorder=2,
                gid="vertices " + " ".join(map(str, np.flatnonzero(subset))),
            )
        fittest = int(np.nan_to_num(fitness, nan=-1).argmax())
        for i in range(len(values)) if len(values) <= _MAX_LABELS else [fittest]:
            below = {"xytext": (0, -0.6 * math.sqrt(size) - 3), "textcoords": "offset points", "ha": "center", "va": "top"}
            box = {"facecolor": PAPER, "edgecolor": "none", "pad": 0.5, "alpha": 0.8}
            axes.annotate(_truncate(graph.describe(values[i]), 18), positions[i], **below, bbox=box, zorder=3)
        axes.margins(_MARGIN, 0.5 if flat else _MARGIN)
    return figure


def tooltips(graph: KnobGraph) -> list[str]:
    """Text to show for each vertex, by index."""
    return [f"{graph.describe(value)}: {_format_stats(graph.stats.get(value))}" for value in graph.topology]


def _format_stats(stats: ValueStats | None) -> str:
    if not stats:
        return "not tried"
    trials = pluralize(stats.trials, "trial")
    return f"{trials}, best {milliseconds(stats.best)} ms" if stats.best < math.inf else f"{trials}, all failed"


def save(figure: Figure, path: Path) -> None:
    """Save a figure as an image with a white background."""
    with matplotlib.rc_context(STYLE):
        figure.savefig(path, dpi=200, facecolor="white")


@contextmanager
def _new_figure(width: float = _WIDTH, height: float = _HEIGHT) -> Iterator[tuple[Figure, Any]]:
    """A figure and its axes. Bypasses pyplot, which would keep a reference to every figure."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure, figure.add_subplot()


def _plot_steps(axes: Any, index: int, label: str, x: Any, best: Array) -> None:
    """Plot a non-increasing step curve; only the points where it changes are drawn."""
    drops = np.flatnonzero(best < np.concatenate([[math.inf], best[:-1]]))
    shown = np.unique([*drops, len(best) - 1])
    color = SERIES[index % len(SERIES)]
    axes.plot(x[shown], best[shown] * 1e3, drawstyle="steps-post", color=color, linewidth=1.6, label=_label(label), gid="best")


def _add_legend(figure: Figure, series: int) -> None:
    """Add a legend if there are several series, and few enough to leave room for the chart."""
    if 1 < series <= _MAX_LEGEND:
        figure.legend(loc="outside upper right", ncols=2)


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
    axes.xaxis.set_major_locator(MaxNLocator(_MAX_TICKS, integer=unit == "trials"))
    axes.set_xlim(left=0)


def _label(name: str) -> str:
    """Escape a leading underscore, with which matplotlib hides labels."""
    return f"\u200b{name}" if name.startswith("_") else name


def _time_unit(seconds: float) -> tuple[float, str]:
    """The unit for a duration: its length in seconds, and its name."""
    if seconds < 180:
        return 1.0, "seconds"
    return (60.0, "minutes") if seconds < 10_800 else (3600.0, "hours")


def _truncate(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
