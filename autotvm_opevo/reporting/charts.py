"""The pictures of a report, drawn by matplotlib: as files, and as SVG that takes its colours from the page around it."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import matplotlib
import numpy as np
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

from autotvm_opevo.display import milliseconds
from autotvm_opevo.reporting.knob_graphs import KnobGraph
from autotvm_opevo.reporting.trials import Task
from autotvm_opevo.reporting.words import in_words

# What the page calls its colours, and what they are on paper. Every log of a report has a colour; more of them begin anew.
INK, QUIET, RULE, PAPER = "#1f2328", "#59636e", "#c9cdd2", "#ffffff"
SERIES = ("#1f6fb4", "#d1572b", "#2f8f5b", "#8a55b5", "#b08900", "#5d6b78")
# Of a vertex whose best trial was so many tenths as fast as the best of all, and what that is on a dark page, where the other end
# of the colours stands out.
FITNESS = tuple(to_hex(matplotlib.colormaps["viridis_r"](tenths / 10)) for tenths in range(11))
FITNESS_ON_DARK = tuple(to_hex(matplotlib.colormaps["viridis"](0.2 + 0.08 * tenths)) for tenths in range(11))
_VARIABLES = {
    **{INK: "--ink", QUIET: "--quiet", RULE: "--rule", PAPER: "--paper"},
    **{color: f"--series-{i}" for i, color in enumerate(SERIES)},
    **{color: f"--fitness-{tenths}" for tenths, color in enumerate(FITNESS)},
}
# In inches: small, so that letters can be read on a phone, where a picture is as wide as the screen.
_WIDTH, _HEIGHT, _GRAPH = 4.2, 2.6, 3.4
_MOST_DOTS = 600
# Of fewer trials none is beyond the axis, however slow.
FEW = 48
_BINS = 40
_LABELLED = 12
_STYLE: Any = {
    "axes.edgecolor": RULE,
    "axes.facecolor": "none",
    "axes.grid": True,
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.facecolor": "none",
    "font.size": 9,
    "grid.color": RULE,
    "grid.linewidth": 0.4,
    "legend.fontsize": 9,
    "legend.frameon": False,
    "legend.labelcolor": INK,
    "savefig.facecolor": "none",
    "svg.fonttype": "none",
    "text.color": INK,
    "text.parse_math": False,  # a name with dollars is a name
    "xtick.color": INK,
    "ytick.color": INK,
}


def progress(tasks: Sequence[tuple[int, str, Task]], over_time: bool = False) -> Figure | None:
    """The best latency so far of a task in one log or more, over trials or over time; dots are trials where there is one log.

    Parameters
    ----------
    tasks : sequence of (int, str, Task)
        The log's number, which is its colour, and what it is called.
    over_time : bool
        That was spent on the task, instead of trials.

    Returns
    -------
    Figure or None
        None where there is nothing to draw: no trial worked, or no log has times.
    """
    curves = [(number, label, task) for number, label, task in tasks if task.best < math.inf]
    if over_time:
        curves = [(number, label, task) for number, label, task in curves if len(task.elapsed)]
    if not curves:
        return None
    span, unit = _unit(max(float(task.elapsed.max()) for _, _, task in curves)) if over_time else (1.0, "trials")
    with _drawing() as (figure, axes):
        for number, label, task in curves:
            color, order = SERIES[number % len(SERIES)], np.argsort(task.elapsed, kind="stable") if over_time else slice(None)
            x = task.elapsed[order] / span if over_time else np.arange(1, len(task) + 1)
            latencies = task.latencies[order]
            best = np.minimum.accumulate(latencies)
            if len(curves) == 1:
                some = np.unique(np.linspace(0, len(x) - 1, _MOST_DOTS).astype(int))
                axes.plot(x[some], latencies[some] * 1e3, ".", color=color, alpha=0.5, markersize=4.5, gid="trials")
            drops = np.flatnonzero(best < np.concatenate([[math.inf], best[:-1]]))
            shown = np.unique([*drops, len(best) - 1])
            axes.plot(
                x[shown], best[shown] * 1e3, drawstyle="steps-post", color=color, linewidth=1.6, label=_label(label), gid="best"
            )
        logarithmic = _limit(axes, [task for _, _, task in curves])
        axes.set_xlabel(unit)
        axes.set_ylabel("best so far, ms" + " (logarithmic)" * logarithmic)
        axes.xaxis.set_major_locator(MaxNLocator("auto", integer=not over_time))
        _legend(axes, [label for _, label, _ in curves])
    return figure


def throughput(logs: Sequence[tuple[int, str, Any]]) -> Figure | None:
    """Trials a minute over time, of whole logs: given as the seconds after which trials ended."""
    known = [(number, label, elapsed) for number, label, elapsed in logs if len(elapsed) > 1 and elapsed.max() > 0]
    if not known:
        return None
    span, unit = _unit(max(float(elapsed.max()) for _, _, elapsed in known))
    with _drawing() as (figure, axes):
        for number, label, elapsed in known:
            counts, edges = np.histogram(elapsed, bins=min(_BINS, max(2, len(elapsed) // 4)))
            axes.stairs(
                counts / np.diff(edges) * 60, edges / span, color=SERIES[number % len(SERIES)], linewidth=1.4, label=label
            )
        axes.set_ylim(bottom=0)
        axes.set_xlabel(unit)
        axes.set_ylabel("trials a minute")
        _legend(axes, [label for _, label, _ in known])
    return figure


def latencies(rows: Sequence[tuple[str, float, float]]) -> Figure:
    """Bars of operators: name, and milliseconds before and after."""
    with _drawing(height=0.7 + 0.3 * len(rows)) as (figure, axes):
        y = np.arange(len(rows))
        axes.barh(y - 0.2, [before for _, before, _ in rows], 0.36, color=RULE, label="first trial")
        axes.barh(y + 0.2, [after for _, _, after in rows], 0.36, color=SERIES[0], label="best")
        axes.set_yticks(y, [_short(name, 34) for name, _, _ in rows])
        axes.invert_yaxis()
        axes.set_xlabel("ms")
        axes.grid(axis="y", visible=False)
        axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=2)
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
            axes.annotate(in_words(values[i]), where[i], **below, bbox=behind, zorder=3)
        axes.margins(0.12, 0.5 if flat else 0.12)
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


def svg(figure: Figure, title: str, vertices: Sequence[str] = ()) -> str:
    """A figure as SVG for a page: as wide as there is room, in the page's colours and letters, with a title for those who listen.

    Parameters
    ----------
    figure : Figure
    title : str
    vertices : sequence of str
        What to say of each vertex of a `knob`.
    """
    text = io.StringIO()
    with matplotlib.rc_context({**_STYLE, "svg.hashsalt": title}):
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    for namespace, address in (("", _SVG), ("xlink", "http://www.w3.org/1999/xlink")):
        ElementTree.register_namespace(namespace, address)
    root = ElementTree.fromstring(text.getvalue())
    for name in ("width", "height"):
        root.attrib.pop(name, None)
    root.set("role", "img")
    for metadata in root.findall(f"{{{_SVG}}}metadata"):
        root.remove(metadata)
    caption = ElementTree.Element(f"{{{_SVG}}}title")
    caption.text = title
    root.insert(0, caption)
    for group in root.iter(f"{{{_SVG}}}g"):
        name = group.attrib.pop("id", "")  # no two things on a page may have the same
        kind, *numbers = name.split() or [""]
        group.set("class", kind)
        if kind == "vertices":
            for use, number in zip(group.iter(f"{{{_SVG}}}use"), map(int, numbers)):
                ElementTree.SubElement(use, f"{{{_SVG}}}title").text = vertices[number]
    for element in root.iter():  # the letters' own font, and the colours of the page, but never a word of the text
        for name in ("style", "fill", "stroke"):
            if name in element.attrib:
                element.set(name, _of_page(element.attrib[name]))
    return ElementTree.tostring(root, encoding="unicode")


def _of_page(style: str) -> str:
    """A style with the page's letters and colours.

    >>> _of_page("font: 8px 'DejaVu Sans'; fill: #1f2328")
    'font-size: 8px; fill: var(--ink)'
    """
    style = re.sub(r"font: ([\d.]+px) [^;]*", r"font-size: \1", style)
    return re.sub(r"#[0-9a-f]{6}", lambda color: f"var({_VARIABLES[color[0]]})" if color[0] in _VARIABLES else color[0], style)


def save(figure: Figure, path: Path) -> None:
    """As a picture of its own, on white."""
    with matplotlib.rc_context(_STYLE):
        figure.savefig(path, dpi=200, facecolor="white")


_SVG = "http://www.w3.org/2000/svg"


@contextmanager
def _drawing(width: float = _WIDTH, height: float = _HEIGHT) -> Iterator[tuple[Figure, Any]]:
    """A figure that nobody but its holder knows, so that a thousand of them are no leak, and its axes."""
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure, figure.add_subplot()


def _limit(axes: Any, tasks: Sequence[Task]) -> bool:
    """Room for the curves and most trials, on a logarithmic axis where they are far apart; whether it is one."""
    low = min(task.best for task in tasks) * 1e3
    worked = [task.latencies[np.isfinite(task.latencies)] * 1e3 for task in tasks]
    high = max(max(w[0], float(np.quantile(w, 0.75 if len(w) > FEW else 1.0))) for w in worked)
    logarithmic = bool(high > 5 * low)
    if logarithmic:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high > 50 * low else (1, 1.5, 2, 3, 5, 7)))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_locator(NullLocator())
    axes.set_ylim(low * 0.85 if logarithmic else low - 0.06 * (high - low) - 0.01 * low, high * 1.05)
    return logarithmic


def _legend(axes: Any, labels: Sequence[str]) -> None:
    if len(labels) > 1:
        axes.legend()


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
