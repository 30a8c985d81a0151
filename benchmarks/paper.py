"""The paper's Tables 1 to 3, and tables of our results in the same form."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import numpy as np
import tvm

from benchmarks import markdown

# The last is not a tuner but the vendor's library.
TUNERS = [
    "G-BFS",
    "N-A2C",
    "XGB",
    "OpEvo-published",
    "OpEvo",
    "GA",
    "Random",
    "Grid",
    "Droplet",
    "NoSE",
    "library",
]
# Tables 1 to 3, Nvidia GTX 1080Ti: mean and standard deviation of TFLOPS after 500 trials. The
# paper's AutoTVM is XGBTuner.
PAPER = {
    "MM1": {
        "G-BFS": (7.22, 0.04),
        "N-A2C": (6.39, 0.61),
        "XGB": (4.86, 0.18),
        "OpEvo-published": (6.89, 0.58),
    },
    "MM2": {
        "G-BFS": (7.80, 0.57),
        "N-A2C": (7.00, 0.90),
        "XGB": (7.39, 0.20),
        "OpEvo-published": (7.90, 0.84),
    },
    "MM3": {
        "G-BFS": (6.98, 0.24),
        "N-A2C": (6.77, 0.25),
        "XGB": (6.91, 0.21),
        "OpEvo-published": (6.89, 0.18),
    },
    "BMM1": {"XGB": (4.30, 0.47), "OpEvo-published": (5.46, 0.02)},
    "BMM2": {"XGB": (5.11, 0.37), "OpEvo-published": (5.65, 0.03)},
    "BMM3": {"XGB": (4.34, 0.75), "OpEvo-published": (4.82, 0.06)},
    "C1": {"XGB": (3.36, 0.73), "OpEvo-published": (3.62, 0.46)},
    "C2": {"XGB": (6.33, 0.45), "OpEvo-published": (8.00, 0.39)},
}


def tables(runs: list[dict[str, Any]]) -> str:
    """Markdown: TFLOPS beside the paper's, and the time that tuning took.

    Parameters
    ----------
    runs : list of dict
        Results of `benchmarks.hardware`, all with the same target and environment.
    """
    runs = [run for run in runs if not run.get("unsupported")]
    if not runs:
        return "no results"
    first = runs[0]
    names = [tuner for tuner in TUNERS if any(run["tuner"] == tuner for run in runs)]
    by: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for run in runs:
        by[run["operator"], run["tuner"]].append(run)
    repeats = sorted({len(some) for some in by.values()})
    trials = sorted({run["trials"] for run in runs})
    kind = tvm.target.Target(first["target"]).kind.name
    rows = []
    for operator in PAPER:
        if any((operator, tuner) in by for tuner in names):
            row = [[run["tflops"] for run in by[operator, tuner]] for tuner in names]
            cells = [_mean(values, _decimals(row)) for values in row]
            rows.append([operator, *cells, *_paper(operator)])
    times = []
    for tuner in (name for name in names if name != "library"):
        mine = [run for run in runs if run["tuner"] == tuner]
        seconds, own = (
            np.array([run[what] for run in mine]) for what in ("seconds", "tuner_seconds")
        )
        failed = np.mean([run["failures"] / run["measured"] for run in mine])
        times.append(
            [tuner, _mean(seconds, 0), f"{own.sum() / seconds.sum():.2%}", f"{failed:.0%}"]
        )
    head = ["operator", *names, "paper: G-BFS", "N-A2C", "AutoTVM", "OpEvo"]
    columns = ["tuner", "seconds per run", "share of the tuner", "failed trials"]
    return (
        f"{first['device']}, {first['target']}, TVM {first['tvm']}; best TFLOPS after "
        f"{_or(trials)} trials: mean ± standard deviation of {_or(repeats)} "
        f"runs{'.' if kind == 'cuda' else '; the operators are smaller than on a GPU.'}\n\n"
        f"{markdown.table(head, rows)}\n\n{markdown.table(columns, times)}"
    )


def _paper(operator: str) -> list[str]:
    results = PAPER[operator]
    return [
        "{:.2f} ± {:.2f}".format(*results[t]) if t in results else ""
        for t in ("G-BFS", "N-A2C", "XGB", "OpEvo-published")
    ]


def _decimals(row: list[list[float]]) -> int:
    """Decimals for three significant digits of the largest: a CPU reaches hundredths of a
    TFLOPS.
    """
    largest = max(sum(row, [0.0]))
    return max(0, 2 - math.floor(math.log10(largest))) if largest else 2


def _or(numbers: list[int]) -> str:
    return " or ".join(map(str, numbers))


def _mean(values: Iterable[float], digits: int) -> str:
    values = list(values)
    if not values:
        return ""
    return f"{np.mean(values):.{digits}f}" + (
        f" ± {np.std(values, ddof=1):.{digits}f}" if len(values) > 1 else ""
    )
