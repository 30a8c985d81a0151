"""The pictures of a report, drawn by matplotlib."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator
from scipy.spatial.distance import pdist

from autotvm_opevo._utils.text import milliseconds
from autotvm_opevo.reporting.knob_graphs import KnobGraph
from autotvm_opevo.reporting.network import Run
from autotvm_opevo.reporting.style import FITNESS, INK, PAPER, QUIET, RULE, SERIES, STYLE
from autotvm_opevo.reporting.timing import Array

# In inches: small, so that letters can be read on a phone, where a picture is as wide as the screen.
_WIDTH, _HEIGHT, _GRAPH = 4.2, 2.6, 3.4
_MOST_DOTS = 600
# Of so many trials none is beyond the axis, however slow.
_ALL_SHOWN = 48
_BINS = 40
# Trials that end within so many seconds are of one batch.
_AT_ONCE = 0.05
# On an axis, so that they do not run into one another on a phone.
_MOST_TICKS = 6
# Of more logs the page's own list has to do.
_MOST_NAMED = 6
_LABELLED = 12
# Of a vertex, in square points; and around a graph, as a part of it.
_SMALLEST, _MARGIN = 6.0, 0.12


def progress(runs: Sequence[Run], over_time: bool = False) -> Figure | None:
    """The best latency so far of a task in one log or more, over trials or over time; dots are trials where there is one log.

    Parameters
    ----------
    runs : sequence of Run
        The log's number is its colour.
    over_time : bool
        That was spent on the task, instead of trials.

    Returns
    -------
    Figure or None
        None where there is nothing to draw: no trial worked, or no log has times.
    """
    curves = [run for run in runs if run.task.best < math.inf and len(run.task) > 1 and (len(run.task.elapsed) or not over_time)]
    if not curves:
        return None
    span, unit = _unit(max(float(run.task.elapsed.max()) for run in curves)) if over_time else (1.0, "trials")
    with _drawing() as (figure, axes):
        for log, label, task in curves:
            order = np.argsort(task.elapsed, kind="stable") if over_time else slice(None)
            x = task.elapsed[order] / span if over_time else np.arange(1, len(task) + 1)
            latencies = task.latencies[order]
            if len(curves) == 1:
                some = np.unique(np.linspace(0, len(x) - 1, _MOST_DOTS).astype(int))
                axes.plot(
                    x[some], latencies[some] * 1e3, ".", color=SERIES[log % len(SERIES)], alpha=0.5, markersize=4.5, gid="trials"
                )
            _steps(axes, log, label, x, np.minimum.accumulate(latencies))
        _best_so_far(axes, [run.task.latencies for run in curves], unit)
        _name(figure, len(curves))
    return figure


def whole(curves: Sequence[tuple[int, str, Array]], elapsed: Sequence[Array] | None = None) -> Figure | None:
    """The best so far of all operators together, over trials or over time.

    Parameters
    ----------
    curves : sequence of (int, str, array of float)
        Of each log, its number, its label, and seconds after each trial, infinite while not all operators work.
    elapsed : sequence of array of float, optional
        Instead of trials, when they ended.

    Returns
    -------
    Figure or None
        None where there is nothing to draw.
    """
    spans = [np.arange(1, len(best) + 1) for _, _, best in curves] if elapsed is None else elapsed
    drawn = [
        (log, label, x[known], best[known])
        for (log, label, best), x in zip(curves, spans)
        if (known := np.isfinite(best)).sum() > 1
    ]
    if not drawn:
        return None
    span, unit = (1.0, "trials") if elapsed is None else _unit(max(float(x[-1]) for _, _, x, _ in drawn))
    with _drawing() as (figure, axes):
        for log, label, x, best in drawn:
            _steps(axes, log, label, x / span, best)
        _best_so_far(axes, [best for *_, best in drawn], unit)
        _name(figure, len(drawn))
    return figure


def throughput(logs: Sequence[tuple[int, str, Any]]) -> Figure | None:
    """Trials a minute over time, of whole logs: given as the seconds after which trials ended."""
    known = [(number, label, elapsed) for number, label, elapsed in logs if len(elapsed) > 1 and elapsed.max() > 0]
    if not known:
        return None
    span, unit = _unit(max(float(elapsed.max()) for _, _, elapsed in known))
    with _drawing() as (figure, axes):
        for number, label, elapsed in known:
            ends, edges = _batches(elapsed), np.linspace(0, elapsed[-1], 1 + max(2, min(_BINS // len(known), len(elapsed) // 4)))
            counts = np.diff(np.interp(edges, np.append(0, elapsed[ends]), np.append(0, ends + 1)))
            axes.stairs(
                counts / np.diff(edges) * 60, edges / span, color=SERIES[number % len(SERIES)], linewidth=1.4, label=_label(label)
            )
        axes.set_ylim(bottom=0)
        axes.set_xlabel(unit)
        axes.set_ylabel("trials a minute")
        _name(figure, len(known))
    return figure


def _batches(elapsed: Array) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    """The last trial of each batch: results that came at once were measured since those before."""
    return np.flatnonzero(np.append(np.diff(elapsed) > _AT_ONCE, True))


def latencies(names: Sequence[str], bars: Sequence[tuple[str, str, Sequence[float]]]) -> Figure:
    """Bars of operators: of each kind its label, its colour, and the milliseconds of every operator."""
    with _drawing(height=0.7 + (0.14 + 0.08 * len(bars)) * len(names)) as (figure, axes):
        y, thick = np.arange(len(names)), 0.8 / len(bars)
        for i, (label, color, values) in enumerate(bars):
            axes.barh(y + (i - (len(bars) - 1) / 2) * thick, values, 0.9 * thick, color=color, label=_label(label))
        axes.set_yticks(y, [_short(name, 34) for name in names])
        axes.invert_yaxis()
        axes.set_xlabel("ms")
        axes.xaxis.set_major_locator(MaxNLocator(_MOST_TICKS))
        axes.grid(axis="y", visible=False)
        _name(figure, len(bars))
    return figure


def knob(graph: KnobGraph, best: float) -> Figure:
    """The paper's Figure 1 with what was seen: `FITNESS` colours vertices, hollow ones had no trials, crosses only failures.

    Parameters
    ----------
    graph : KnobGraph
    best : float
        The task's best latency in seconds: a vertex's colour is how near the best trial there came to it.
    """
    where, values = graph.positions, list(graph.topology)
    width, height = np.ptp(where, axis=0)
    flat = height == 0.0
    inches = 0.9 if flat else float(np.clip(_GRAPH * (height + 0.4) / (width + 0.4), 1.2, 0.8 * _GRAPH))
    with _drawing(_GRAPH, inches) as (figure, axes):
        axes.set_axis_off()
        if not flat:
            axes.set_aspect("equal")
        edges = np.array(list(graph.edges), dtype=int).reshape(-1, 2)
        gaps = np.full(len(edges), np.nan)  # lift the pen between edges: one path is a tenth of the size of many
        lines = [np.column_stack([where[edges[:, 0], k], where[edges[:, 1], k], gaps]).ravel() for k in (0, 1)]
        axes.plot(*lines, color=RULE, linewidth=0.7, zorder=1)
        fitness = np.array([best / seen.latency if (seen := graph.seen.get(value)) else math.nan for value in values])
        size = 160 if len(values) <= _LABELLED else float(np.clip(5000 / len(values), 14, 90))
        if len(values) > 1:  # no vertex hides another; of an inch's 72 points, labels take some
            room = min((inch - 0.1) / extent for inch, extent in ((_GRAPH, width), (inches, height)) if extent > 0)
            size = min(size, max(_SMALLEST, (65 * room / (1 + 2 * _MARGIN) * float(pdist(where).min())) ** 2))
        for marker, chosen, colors in (
            ("o", np.isnan(fitness), None),
            ("X", fitness == 0, RULE),
            ("o", fitness > 0, [FITNESS[round(10 * one)] for one in fitness[fitness > 0]]),
        ):
            axes.scatter(
                *where[chosen].T,
                s=size,
                marker=marker,
                color=PAPER if colors is None else colors,
                edgecolor=INK if colors is not None else QUIET,
                linewidth=0.6,
                zorder=2,
                gid="vertices " + " ".join(map(str, np.flatnonzero(chosen))),
            )
        known = np.nan_to_num(fitness, nan=-1)
        for i in range(len(values)) if len(values) <= _LABELLED else [int(known.argmax())]:
            below = {"xytext": (0, -0.6 * math.sqrt(size) - 3), "textcoords": "offset points", "ha": "center", "va": "top"}
            behind = {"facecolor": PAPER, "edgecolor": "none", "pad": 0.5, "alpha": 0.8}
            axes.annotate(_short(graph.meaning(values[i]), 18), where[i], **below, bbox=behind, zorder=3)
        axes.margins(_MARGIN, 0.5 if flat else _MARGIN)
    return figure


def describe(graph: KnobGraph) -> list[str]:
    """What a pointer that rests on a vertex is told, vertex by vertex."""
    return [f"{graph.meaning(value)}: {_seen(graph, value)}" for value in graph.topology]


def _seen(graph: KnobGraph, value: Any) -> str:
    seen = graph.seen.get(value)
    if not seen:
        return "not tried"
    tried = f"tried {seen.trials} time{'s' * (seen.trials > 1)}"
    return f"{tried}, best {milliseconds(seen.latency)} ms" if seen.latency < math.inf else f"{tried}, all failed"


def save(figure: Figure, path: Path) -> None:
    """As a picture of its own, on white."""
    with matplotlib.rc_context(STYLE):
        figure.savefig(path, dpi=200, facecolor="white")


@contextmanager
def _drawing(width: float = _WIDTH, height: float = _HEIGHT) -> Iterator[tuple[Figure, Any]]:
    """A figure that nobody but its holder knows, so that a thousand of them are no leak, and its axes."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure, figure.add_subplot()


def _steps(axes: Any, log: int, label: str, x: Any, best: Array) -> None:
    """A curve that falls in steps, of which only those are drawn."""
    drops = np.flatnonzero(best < np.concatenate([[math.inf], best[:-1]]))
    shown = np.unique([*drops, len(best) - 1])
    color = SERIES[log % len(SERIES)]
    axes.plot(x[shown], best[shown] * 1e3, drawstyle="steps-post", color=color, linewidth=1.6, label=_label(label), gid="best")


def _name(figure: Figure, drawn: int) -> None:
    """A legend, where there is something to tell apart and it would not take the picture's room."""
    if 1 < drawn <= _MOST_NAMED:
        figure.legend(loc="outside upper right", ncols=2)


def _best_so_far(axes: Any, seconds: Sequence[Array], unit: str) -> None:
    """Axes with room for most of what is given, logarithmic where that is far apart."""
    worked = [some[np.isfinite(some)] * 1e3 for some in seconds]
    low = min(float(w.min()) for w in worked)
    high = max(max(float(w[0]), float(np.quantile(w, 0.75 if len(w) > _ALL_SHOWN else 1.0))) for w in worked)
    logarithmic = bool(high > 5 * low)
    if logarithmic:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high > 50 * low else (1, 1.5, 2, 3, 5, 7)))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_locator(NullLocator())
    axes.set_ylim(low * 0.85 if logarithmic else low - 0.06 * (high - low) - 0.01 * low, high * 1.05)
    axes.set_xlabel(unit)
    axes.set_ylabel("best so far, ms" + " (logarithmic)" * logarithmic)
    axes.xaxis.set_major_locator(MaxNLocator(_MOST_TICKS, integer=unit == "trials"))
    axes.set_xlim(left=0)


def _label(name: str) -> str:
    """Names that begin with an underscore are none to matplotlib."""
    return f"\u200b{name}" if name.startswith("_") else name


def _unit(seconds: float) -> tuple[float, str]:
    """What to measure a span of time in: how many seconds that is, and what it is called."""
    if seconds < 180:
        return 1.0, "seconds"
    return (60.0, "minutes") if seconds < 10_800 else (3600.0, "hours")


def _short(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
