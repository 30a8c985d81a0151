"""How all pictures of a report look."""

from __future__ import annotations

from typing import Any

import matplotlib
from matplotlib.colors import to_hex

# What the page calls its colours, and what they are on paper. Every log of a report has a colour; more of them begin anew.
INK = "#1f2328"
QUIET = "#59636e"
RULE = "#c9cdd2"
PAPER = "#ffffff"
SERIES = ("#1f6fb4", "#d1572b", "#2f8f5b", "#8a55b5", "#b08900", "#5d6b78")
# Of a vertex whose best trial was so many tenths as fast as the best of all, and what that is on a dark page, where the other end
# of the colours stands out.
FITNESS = tuple(to_hex(matplotlib.colormaps["viridis_r"](tenths / 10)) for tenths in range(11))
FITNESS_ON_DARK = tuple(to_hex(matplotlib.colormaps["viridis"](0.2 + 0.08 * tenths)) for tenths in range(11))
STYLE: Any = {
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
