"""Figures of a report: their colours, sizes and names, as inline SVG."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

import matplotlib
import numpy as np
from matplotlib.figure import Figure

# The light theme's colours; the page has a variable for each. SERIES has the colours of logs, and
# repeats if there are more.
INK = "#1f2328"
RULE = "#c9cdd2"
SERIES = ("#1f6fb4", "#d1572b", "#2f8f5b", "#8a55b5", "#b08900", "#5d6b78")
STYLE: Any = {
    "axes.axisbelow": True,
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
    "savefig.facecolor": "none",
    "svg.fonttype": "none",
    "text.color": INK,
    "text.parse_math": False,  # names may contain dollar signs
    "xtick.color": INK,
    "ytick.color": INK,
}

# Width and height in inches: small, so that text is legible on a phone, where a chart is as wide as
# the screen.
_WIDTH, _HEIGHT = 4.2, 2.6
# Heights of a bar, of the name above, and of the gap below; and the longest name, in characters.
BAR = 0.11
_NAME, _GAP = 0.15, 0.03
_MAX_NAME = 60
# More tick labels overlap on a phone.
MAX_TICKS = 6
_SVG, _METADATA = "http://www.w3.org/2000/svg", ("Date", "Creator", "Format", "Type")
for prefix, namespace in (("", _SVG), ("xlink", "http://www.w3.org/1999/xlink")):
    ElementTree.register_namespace(prefix, namespace)
_VARIABLES = {
    **{INK: "--ink", RULE: "--rule"},
    **{color: f"--series-{i}" for i, color in enumerate(SERIES)},
}


@dataclass(frozen=True)
class Plot:
    """A figure with title and caption."""

    title: str
    caption: str
    figure: Figure


@contextmanager
def new_figure(height: float = _HEIGHT) -> Iterator[tuple[Figure, Any]]:
    """A figure and its axes. Bypasses pyplot, which would keep a reference to every figure."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(_WIDTH, height), layout="constrained")
        yield figure, figure.add_subplot()


@contextmanager
def named_bars(names: Sequence[str], bars: int = 1) -> Iterator[tuple[Figure, Any, Any]]:
    """A figure for horizontal bars, its axes, and the middle of each row's bars.

    Names are above the bars: beside, they would squash them. Each row has room for as many `bars`.
    """
    height = _NAME + bars * BAR + _GAP
    below = height * np.arange(len(names)) + _NAME
    with new_figure(height=0.65 + len(names) * height) as (figure, axes):
        above: Any = {"textcoords": "offset points", "va": "bottom", "fontsize": 8}
        for y, name in zip(below, names):
            short = name if len(name) <= _MAX_NAME else name[: _MAX_NAME - 1] + "…"
            axes.annotate(short, (0, y), (1, 1.5), **above)
        axes.set_yticks([])
        axes.set_ylim(len(names) * height, 0)
        axes.grid(axis="y", visible=False)
        yield figure, axes, below + bars * BAR / 2


def svg(figure: Figure, title: str) -> str:
    """Convert a figure to inline SVG without a fixed size, in the colours and fonts of the page,
    with a title for screen readers.
    """
    text = io.StringIO()
    with matplotlib.rc_context({**STYLE, "svg.hashsalt": title}):
        figure.savefig(text, format="svg", metadata=dict.fromkeys(_METADATA))
    root = ElementTree.fromstring(text.getvalue())
    for name in ("width", "height"):
        root.attrib.pop(name, None)
    root.set("role", "img")
    for metadata in root.findall(f"{{{_SVG}}}metadata"):
        root.remove(metadata)
    root.insert(0, ElementTree.Element(f"{{{_SVG}}}title"))
    root[0].text = title
    for group in root.iter(f"{{{_SVG}}}g"):
        group.set("class", group.attrib.pop("id", ""))  # ids must be unique on a page
    for element in root.iter():  # attributes only: text must stay as it is
        for name in ("style", "fill", "stroke"):
            if name in element.attrib:
                element.set(name, _use_page_style(element.attrib[name]))
    return ElementTree.tostring(root, encoding="unicode")


def _use_page_style(style: str) -> str:
    """Remove the font family, and replace colours with the page's variables.

    >>> _use_page_style("font: 8px 'DejaVu Sans'; fill: #1f2328")
    'font-size: 8px; fill: var(--ink)'
    """
    style = re.sub(r"font: ([\d.]+px) [^;]*", r"font-size: \1", style)
    colors = "|".join(_VARIABLES)
    return re.sub(colors, lambda color: f"var({_VARIABLES[color[0]]})", style)
