"""Tables of whole networks that were tuned by several methods in turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from autotvm_opevo.tuning.comparison import Comparison
from benchmarks import markdown
from benchmarks.statistics import geometric_mean_interval

UNTUNED = "untuned"
Run = dict[str, Any]


def timings(comparison: Comparison) -> Run:
    """What a run keeps of the networks that were timed in turn; the errors of wrong ones, too, or
    the next run would draw again.
    """
    names = [UNTUNED, *comparison.logs] if comparison.outputs_match else []
    return {
        "milliseconds": {
            name: 1e3 * comparison.race.latency(i).value for i, name in enumerate(names)
        },
        "relative_errors": dict(zip(comparison.logs, comparison.relative_errors)),
    }


def table(runs: Sequence[Run]) -> str:
    """Medians and ranges over repetitions, then the leads of the last method with their intervals.

    Parameters
    ----------
    runs : sequence of dict
        A repetition each: its ``network``, ``seed``, and ``methods`` in order, of which the first
        is the baseline; by method, the ``seconds`` of tuning, and the ``milliseconds`` of the
        network, which may have others too, `UNTUNED` among them. Where outputs differ, there are
        no ``milliseconds``, and the ``relative_errors`` are listed below the table.
    """
    wrong = [run for run in runs if not run["milliseconds"]]
    runs = [run for run in runs if run["milliseconds"]]
    rows = []
    for network, name in dict.fromkeys(
        (run["network"], name) for run in runs for name in run["milliseconds"]
    ):
        mine = [run for run in runs if run["network"] == network]
        latency = np.array([run["milliseconds"][name] for run in mine])
        speedup = np.array([_latency(run, run["methods"][0]) for run in mine]) / latency
        seconds = [run["seconds"].get(name, np.nan) for run in mine]
        took = "" if np.isnan(seconds).any() else f"{np.median(seconds):.0f}"
        rows.append([network, name, _spread(latency), _spread(speedup), took])
    baseline = runs[0]["methods"][0] if runs else ""
    text = markdown.table(
        ["network", "", "ms", f"times as fast as {baseline}", "seconds of tuning"], rows
    )
    leads = [_lead(network, runs) for network in dict.fromkeys(run["network"] for run in runs)]
    failures = [
        f"{run['network']}, seed {run['seed']}: outputs differ, errors {run['relative_errors']}"
        for run in wrong
    ]
    return "\n\n".join([text, *leads, *failures]).strip()


def _latency(run: Run, name: str) -> float:
    """Milliseconds of a method's network; who has one that is slower than the untuned one deploys
    the latter.
    """
    return min(run["milliseconds"][name], run["milliseconds"][UNTUNED])


def _lead(network: str, runs: Sequence[Run]) -> str:
    """How many times as fast the last method is as each of the others, with intervals, if there are
    enough repetitions.
    """
    mine = [run for run in runs if run["network"] == network]
    *others, last = runs[0]["methods"]
    if len(mine) < 3:
        return ""
    leads = []
    for other in others:
        ratios = [_latency(run, other) / run["milliseconds"][last] for run in mine]
        interval = geometric_mean_interval(ratios)
        leads.append("{:.2f} times ({:.2f} to {:.2f}) as fast as {}".format(*interval, other))
    return (
        f"{network}: {last} is {', '.join(leads[:-1])}{' and ' * (len(leads) > 1)}{leads[-1]}. "
        f"Geometric means over {len(mine)} seeds, 95% intervals by Student's t of logarithms."
    )


def _spread(values: np.ndarray[Any, Any]) -> str:
    return f"{np.median(values):.3g} ({values.min():.3g} to {values.max():.3g})"
