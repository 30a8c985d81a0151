"""Plots of a task's knobs: the graph of each, with its caption."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy.spatial.distance import pdist

from autotvm_opevo._utils.text import milliseconds, pluralize
from autotvm_opevo.reporting.figures import (
    FITNESS,
    INK,
    PAPER,
    QUIET,
    RULE,
    Plot,
    new_figure,
    truncate,
)
from autotvm_opevo.reporting.knob_graphs import Array, Knob, positions

# Width of a graph in inches.
_GRAPH = 3.4
# Larger graphs have only their best vertex labelled.
_MAX_LABELS = 12
# Width and height of a character of a label in points.
_CHARACTER = 5.0, 10.0
# Minimum size of a vertex in square points, and margin around a graph as a fraction of it.
_MIN_VERTEX, _MARGIN = 6.0, 0.12


def knob_plots(knobs: Sequence[Knob]) -> Iterator[Plot]:
    """The graph of each of a task's knobs that has more than one value."""
    best = min((knob.best(value) for knob in knobs for value in knob.latencies), default=math.inf)
    for knob in knobs if best < math.inf else ():
        if len(knob.topology) > 1:
            yield Plot(knob.name, _knob_caption(knob), draw_graph(knob, best), tooltips(knob))


def _knob_caption(knob: Knob) -> str:
    tried = [value for value in knob.topology if value in knob.latencies]
    succeeded = [value for value in tried if knob.best(value) < math.inf]
    best = ", ".join(
        f"{knob.describe(value)} ({milliseconds(knob.best(value))} ms)"
        for value in sorted(succeeded, key=knob.best)[:3]
    )
    if knob.size == len(knob.topology):
        count = f"{len(tried)} of {knob.size} values tried"
    else:
        best_of = f"best of {len(knob.latencies)} " if len(knob.latencies) > len(tried) else ""
        total = f", out of {knob.size:,}" if knob.size else ""
        count = f"the {len(tried)} {best_of}values that were tried{total}"
    return f"{count}; best: {best}." if best and len(tried) > 1 else f"{count}."


def draw_graph(knob: Knob, best: float) -> Figure:
    """Draw a knob's graph, like the paper's Figure 1, with vertices coloured by their best trial.

    Vertices without trials are hollow; those where all trials failed are crosses. The ratio of the
    task's `best` latency, in seconds, to that of a vertex determines its colour, from `FITNESS`.
    """
    xy, values = positions(knob.topology), list(knob.topology)
    width, height = np.ptp(xy, axis=0)
    flat, inches = height == 0.0, 0.9
    if not flat:
        inches = float(np.clip(_GRAPH * (height + 0.4) / (width + 0.4), 1.2, 0.8 * _GRAPH))
    with new_figure(_GRAPH, inches) as (figure, axes):
        axes.set_axis_off()
        if not flat:
            axes.set_aspect("equal")
        edges = np.array(list(knob.edges), dtype=int).reshape(-1, 2)
        # one path with gaps is a tenth of the size of many paths
        path = np.insert(xy[edges], 2, np.nan, axis=1).reshape(-1, 2)
        axes.plot(*path.T, color=RULE, linewidth=0.7, zorder=1)
        fitness = np.array(
            [best / knob.best(value) if value in knob.latencies else math.nan for value in values]
        )
        size = 160 if len(values) <= _MAX_LABELS else float(np.clip(5000 / len(values), 14, 90))
        # 65 of an inch's 72 points leave room for labels.
        rooms = [(room - 0.1) / e for room, e in ((_GRAPH, width), (inches, height)) if e > 0]
        points = xy * 65 * min(rooms, default=0.0) / (1 + 2 * _MARGIN)
        if len(values) > 1:  # no vertex may hide another
            size = min(size, max(_MIN_VERTEX, float(pdist(points).min()) ** 2))
        fills = [FITNESS[round(10 * ratio)] for ratio in fitness[fitness > 0]]
        for marker, subset, fill, edge in (
            ("o", np.isnan(fitness), PAPER, QUIET),
            ("X", fitness == 0, RULE, INK),
            ("o", fitness > 0, fills, INK),
        ):
            gid = "vertices " + " ".join(map(str, np.flatnonzero(subset)))
            style: Any = {"color": fill, "edgecolor": edge, "linewidth": 0.6, "zorder": 2}
            axes.scatter(*xy[subset].T, s=size, marker=marker, gid=gid, **style)
        fittest = int(np.nan_to_num(fitness, nan=-1).argmax())
        labels = [truncate(knob.describe(value), 18) for value in values]
        all_fit = len(values) <= _MAX_LABELS and not _overlap(labels, points)
        below: Any = {"textcoords": "offset points", "ha": "center", "va": "top", "zorder": 3}
        below["bbox"] = {"facecolor": PAPER, "edgecolor": "none", "pad": 0.5, "alpha": 0.8}
        for i in range(len(values)) if all_fit else [fittest]:
            axes.annotate(labels[i], xy[i], (0, -0.6 * math.sqrt(size) - 3), **below)
        axes.margins(_MARGIN, 0.5 if flat else _MARGIN)
    return figure


def _overlap(labels: Sequence[str], points: Array) -> bool:
    """Whether labels below these points would overlap."""
    widths = np.array([len(label) * _CHARACTER[0] for label in labels])
    apart = np.abs(points[:, None] - points)
    near = (apart[..., 0] < (widths[:, None] + widths) / 2) & (apart[..., 1] < _CHARACTER[1])
    return bool(near.sum() > len(labels))  # each is near itself


def tooltips(knob: Knob) -> list[str]:
    """Text to show for each vertex, by index."""
    texts = []
    for value in knob.topology:
        text = "not tried"
        if latencies := knob.latencies.get(value):
            best = min(latencies)
            worked = f"best {milliseconds(best)} ms" if best < math.inf else "all failed"
            text = f"{pluralize(len(latencies), 'trial')}, {worked}"
        texts.append(f"{knob.describe(value)}: {text}")
    return texts
