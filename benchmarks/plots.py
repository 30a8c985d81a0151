"""Plots of the best so far, like the paper's Figures 3 to 5."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

Array = np.ndarray[Any, np.dtype[Any]]


def draw(curves: Mapping[str, Array], title: str, path: Path) -> None:
    """Draw medians over runs as lines, and bands from the lower to the upper quartile.

    Parameters
    ----------
    curves : dict
        The best so far by tuner, shape (runs, trials).
    title : str
    path : Path
        Its folder is created if missing.
    """
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes: Any = figure.subplots()
    for tuner, runs in curves.items():
        low, median, high = np.quantile(runs, [0.25, 0.5, 0.75], axis=0)
        trials = np.arange(1, len(median) + 1)
        (line,) = axes.step(trials, median, where="post", label=tuner)
        axes.fill_between(
            trials, low, high, step="post", alpha=0.15, color=line.get_color(), linewidth=0
        )
    axes.set(
        xscale="log", xlabel="trials", ylabel="best so far / optimum", title=title, ylim=(0, 1.02)
    )
    axes.legend(fontsize="small", ncol=2)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def draw_pairs(
    pairs: Iterable[tuple[float, float]], labels: tuple[str, str], xlabel: str, path: Path
) -> None:
    """Draw a row for each pair of values, a baseline's and a method's, sorted by their ratio, with
    a line between both.
    """
    baseline, method = np.array(sorted(pairs, key=lambda pair: pair[1] / pair[0])).T
    rows = np.arange(len(baseline))
    figure = Figure(figsize=(7, 2.8), layout="constrained")
    axes: Any = figure.subplots()
    axes.hlines(rows, baseline, method, color="lightgray", linewidth=3, zorder=0)
    axes.scatter(baseline, rows, color="tab:orange", label=labels[0])
    axes.scatter(method, rows, color="tab:blue", label=labels[1])
    axes.set(xlabel=xlabel, ylabel="runs", xlim=(0, None), yticks=[])
    axes.legend(loc="upper left")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def draw_parts(networks: Mapping[str, tuple[float, float, float, float]], path: Path) -> None:
    """Draw a bar for each network: milliseconds of its operators hot, what they take longer in
    sequence, and what is between them; with a line at their sum as tuned.

    Parameters
    ----------
    networks : dict
        The operators' sum as tuned, hot and in sequence, and the network, by label.
    path : Path
        Its folder is created if missing.
    """
    tuned, hot, in_sequence, whole = np.array(list(networks.values())).T
    rows = np.arange(len(networks))
    figure = Figure(figsize=(7, 1.2 + 0.3 * len(rows)), layout="constrained")
    axes: Any = figure.subplots()
    start = np.zeros(len(rows))
    for end, color, label in (
        (hot, "tab:blue", "operators, hot"),
        (in_sequence, "tab:orange", "in sequence"),
        (whole, "lightgray", "between operators"),
    ):
        axes.barh(rows, np.maximum(0, end - start), left=start, color=color, label=label)
        start = np.maximum(start, end)
    axes.vlines(tuned, rows - 0.4, rows + 0.4, color="black", label="operators, as tuned")
    axes.set(xlabel="ms", yticks=rows, yticklabels=list(networks))
    axes.invert_yaxis()
    figure.legend(fontsize="small", loc="outside lower center", ncols=4)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
