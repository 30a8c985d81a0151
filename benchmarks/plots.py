"""Best so far over trials, like the paper's Figures 3 to 5."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


def draw(by: dict[str, dict[str, Array]], folder: Path) -> None:
    """A picture for each landscape: medians over seeds, and bands from the lower to the upper quartile."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot as plt

    folder.mkdir(parents=True, exist_ok=True)
    for landscape, runs in by.items():
        figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
        for tuner, curves in runs.items():
            low, median, high = np.quantile(curves, [0.25, 0.5, 0.75], axis=0)
            trials = np.arange(1, curves.shape[1] + 1)
            (line,) = axes.step(trials, median, where="post", label=tuner)
            axes.fill_between(trials, low, high, step="post", alpha=0.15, color=line.get_color(), linewidth=0)
        axes.set(xscale="log", xlabel="trials", ylabel="best so far / optimum", title=landscape, ylim=(0, 1.02))
        axes.legend(fontsize="small", ncol=2)
        figure.savefig(folder / f"{landscape.replace(', ', '-')}.png", dpi=110)
        plt.close(figure)
