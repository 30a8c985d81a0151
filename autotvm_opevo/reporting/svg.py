"""Figures as inline SVG that uses the colours and fonts of the page."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from xml.etree import ElementTree

import matplotlib
from matplotlib.figure import Figure

from autotvm_opevo.reporting.style import FITNESS, INK, PAPER, QUIET, RULE, SERIES, STYLE

_SVG = "http://www.w3.org/2000/svg"
_VARIABLES = {
    **{INK: "--ink", QUIET: "--quiet", RULE: "--rule", PAPER: "--paper"},
    **{color: f"--series-{i}" for i, color in enumerate(SERIES)},
    **{color: f"--fitness-{tenths}" for tenths, color in enumerate(FITNESS)},
}


def svg(figure: Figure, title: str, tooltips: Sequence[str] = ()) -> str:
    """Convert a figure to inline SVG without a fixed size, in the colours and fonts of the page.

    Parameters
    ----------
    figure : Figure
    title : str
        For screen readers.
    tooltips : sequence of str
        For each vertex of a knob's graph, by index, the text to show when the pointer rests on it.
    """
    text = io.StringIO()
    with matplotlib.rc_context({**STYLE, "svg.hashsalt": title}):
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
        name = group.attrib.pop("id", "")  # ids must be unique on a page
        kind, *numbers = name.split() or [""]
        group.set("class", kind)
        if kind == "vertices":
            for use, number in zip(group.iter(f"{{{_SVG}}}use"), map(int, numbers)):
                ElementTree.SubElement(use, f"{{{_SVG}}}title").text = tooltips[number]
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
    return re.sub(r"#[0-9a-f]{6}", lambda color: f"var({_VARIABLES[color[0]]})" if color[0] in _VARIABLES else color[0], style)
