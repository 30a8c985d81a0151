"""Colours and matplotlib style of all charts."""

from __future__ import annotations

from typing import Any

import matplotlib
from matplotlib.colors import to_hex

# The light theme's colours; the page has a variable for each. SERIES has the colours of logs, and repeats if there are more.
INK = "#1f2328"
QUIET = "#59636e"
RULE = "#c9cdd2"
PAPER = "#ffffff"
SERIES = ("#1f6fb4", "#d1572b", "#2f8f5b", "#8a55b5", "#b08900", "#5d6b78")
# Colour of a vertex by how fast its best trial was, in tenths of the task's best. The dark theme reverses the colour map, so that
# the best vertices stand out there, too.
FITNESS = tuple(to_hex(matplotlib.colormaps["viridis_r"](tenths / 10)) for tenths in range(11))
FITNESS_ON_DARK = tuple(to_hex(matplotlib.colormaps["viridis"](0.2 + 0.08 * tenths)) for tenths in range(11))
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
    "legend.fontsize": 9,
    "legend.frameon": False,
    "legend.labelcolor": INK,
    "savefig.facecolor": "none",
    "svg.fonttype": "none",
    "text.color": INK,
    "text.parse_math": False,  # names may contain dollar signs
    "xtick.color": INK,
    "ytick.color": INK,
}
