"""Options, table and figure of networks' latencies over the time of tuning."""

import argparse
from pathlib import Path

import numpy as np

from benchmarks import markdown

# The last stage of each method; the others are fractions of the time that the first method takes.
END = "end"
_COLORS = ("tab:orange", "tab:blue")


def make_parser(networks, baseline, trials, share):
    """The options that both benchmarks have."""
    parser = argparse.ArgumentParser(
        description="Measure a tuned network's latency over the time spent on tuning."
    )
    parser.add_argument("--networks", nargs="+", default=["alexnet"], choices=sorted(networks))
    parser.add_argument(
        "--trials",
        type=int,
        default=trials,
        help=f"of {baseline}, over all tasks (default: {trials})",
    )
    parser.add_argument(
        "--share",
        type=float,
        default=share,
        help=f"of the time of {baseline} for tune_network (default: {share:g})",
    )
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--plot", type=Path, help="file for the figure")
    return parser


def table(rows, labels):
    """Milliseconds after fractions of the time: median over repetitions, of medians over rounds,
    with minimum and maximum.
    """
    lines = []
    for name in sorted({row["network"] for row in rows}):
        mine = [row for row in rows if row["network"] == name]
        lines.append(
            [
                name,
                "untuned",
                "",
                "",
                f"{1e3 * np.median([np.median(row['untuned']) for row in mine]):.4g}",
            ]
        )
        for method, label in labels.items():
            of_method = [row for row in mine if row["method"] == method]
            for stage in (*sorted({row["stage"] for row in of_method} - {END}), END):
                found = [row for row in of_method if row["stage"] == stage]
                if not found:
                    continue
                milliseconds = [1e3 * np.median(row["latency"]) for row in found]
                spent, trials = (
                    np.median([row[key] for row in found]) for key in ("seconds", "trials")
                )
                spread = (
                    f" ({min(milliseconds):.3g} to {max(milliseconds):.3g})"
                    if len(found) > 1
                    else ""
                )
                lines.append(
                    [
                        name,
                        label,
                        f"{spent:.0f}",
                        f"{trials:.0f}",
                        f"{np.median(milliseconds):.3g}{spread}",
                    ]
                )
    return markdown.table(["network", "", "seconds of tuning", "trials", "ms (min to max)"], lines)


def plot(rows, labels, file):
    """Latency over time, one line a repetition."""
    import matplotlib.pyplot as plt
    from matplotlib.ticker import LogLocator, NullFormatter, ScalarFormatter

    names = sorted({row["network"] for row in rows})
    figure, axes = plt.subplots(
        1, len(names), figsize=(5 * len(names), 3.2), squeeze=False, layout="constrained"
    )
    for axis, name in zip(axes[0], names):
        for method, color in zip(labels, _COLORS):
            mine = [row for row in rows if (row["network"], row["method"]) == (name, method)]
            for repetition in sorted({row["repetition"] for row in mine}):
                line = [row for row in mine if row["repetition"] == repetition]
                axis.plot(
                    [row["seconds"] for row in line],
                    [1e3 * np.median(row["latency"]) for row in line],
                    color=color,
                    marker=".",
                    label=labels[method] if repetition == 0 else None,
                )
        untuned = 1e3 * np.median([row["untuned"] for row in rows if row["network"] == name])
        axis.axhline(untuned, color="gray", linestyle=":", label="untuned")
        axis.set(xlabel="seconds of tuning", ylabel="latency (ms)", title=name, xscale="log")
        axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.xaxis.set_major_formatter(ScalarFormatter())
        axis.xaxis.set_minor_formatter(NullFormatter())
        axis.legend()
    figure.savefig(file, dpi=150)
