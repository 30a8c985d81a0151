"""Figures of a report: their size, legends and labels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from autotvm_opevo.reporting.style import STYLE

# Inches: small, so that text is legible on a phone, where a chart is as wide as the screen.
WIDTH = 4.2
HEIGHT = 2.6
# Heights of a bar, of the name above, and of the gap below; and the longest name, in characters.
BAR = 0.11
_NAME, _GAP = 0.15, 0.03
_MAX_NAME = 60
# More tick labels overlap on a phone.
MAX_TICKS = 6
# More series have no legend; the page lists the logs anyway.
_MAX_LEGEND = 6
# Number of characters of a label in a legend.
_MAX_LABEL = 48


@contextmanager
def new_figure(width: float = WIDTH, height: float = HEIGHT) -> Iterator[tuple[Figure, Any]]:
    """A figure and its axes. Bypasses pyplot, which would keep a reference to every figure."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure, figure.add_subplot()


def save(figure: Figure, path: Path) -> None:
    """Save a figure as an image with a white background."""
    with matplotlib.rc_context(STYLE):
        figure.savefig(path, dpi=200, facecolor="white")


@contextmanager
def named_bars(names: Sequence[str], bars: float = 1) -> Iterator[tuple[Figure, Any, Any]]:
    """A figure for horizontal bars, its axes, and the middle of each row's bars.

    Names are above the bars: beside, they would squash them.

    Parameters
    ----------
    names : sequence of str
    bars : float
        Height of the bars of one row, in bars of usual height.
    """
    height = _NAME + bars * BAR + _GAP
    below = height * np.arange(len(names)) + _NAME
    with new_figure(height=0.65 + len(names) * height) as (figure, axes):
        for y, name in zip(below, names):
            axes.annotate(truncate(name, _MAX_NAME), (0, y), (1, 1.5), textcoords="offset points", va="bottom", fontsize=8)
        axes.set_yticks([])
        axes.set_ylim(len(names) * height, 0)
        axes.grid(axis="y", visible=False)
        yield figure, axes, below + bars * BAR / 2


def add_legend(figure: Figure, series: int) -> None:
    """Add a legend if there are several series, and few enough to leave room for the chart; of long labels it has the ends."""
    if 1 < series <= _MAX_LEGEND:
        handles, labels = figure.axes[0].get_legend_handles_labels()
        ends = [label if len(label) <= _MAX_LABEL else f"…{label[1 - _MAX_LABEL :]}" for label in labels]
        figure.legend(handles, ends, loc="outside upper right", ncols=2 if max(map(len, ends)) <= _MAX_LABEL // 2 else 1)


def escape_label(name: str) -> str:
    """Escape a leading underscore, with which matplotlib hides labels."""
    return f"\u200b{name}" if name.startswith("_") else name


def truncate(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
