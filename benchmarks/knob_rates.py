"""How similar neighbouring values of each knob turned out to be, and how much of the latency's variance each explains.

    python -m benchmarks.knob_rates LOG...        # seconds; AutoTVM logs or MetaSchedule databases

Of all tasks with enough trials to tell (as in a report's "Which knobs mattered?"), by the knobs' names, without extents.
"""

from __future__ import annotations

import argparse
import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from autotvm_opevo.reporting.fanova import Importance
from autotvm_opevo.reporting.importance import importance
from autotvm_opevo.reporting.logs import open_logs
from autotvm_opevo.reporting.network import Network
from benchmarks import markdown, publish


def table(found: Sequence[Importance]) -> str:
    """Medians and quartiles over the tasks, knobs that explain most first."""
    shares, correlations = defaultdict(list), defaultdict(list)
    for one in found:
        for name, share in one.alone.items():
            knob = re.sub(r", \d+ iterations", "", name)
            shares[knob].append(share)
            correlations[knob].append(one.correlation[name])
    knobs = sorted(shares, key=lambda knob: -float(np.median(shares[knob])))
    rows = [
        [knob, str(len(shares[knob])), _quartiles(correlations[knob], "{:.2f}"), _quartiles(shares[knob], "{:.0%}")]
        for knob in knobs
    ]
    return markdown.table(["knob", "tasks", "q, correlation per step", "share of the variance by itself"], rows)


def _quartiles(values: Sequence[float], form: str) -> str:
    if len(values) == 1:
        return form.format(values[0])
    low, median, high = (form.format(value) for value in np.quantile(values, [0.25, 0.5, 0.75]))
    return f"{median} ({low} to {high})"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="What runs have learned of each knob.")
    parser.add_argument("logs", nargs="+", type=Path, metavar="LOG")
    parser.add_argument(
        "--publish", type=publish.section, metavar="SECTION", help="write the table to this section of docs/results"
    )
    options = parser.parse_args(arguments)
    decomposed = [one for task in Network(open_logs(options.logs)).tasks if (one := importance(task))]
    reliable = [one for one in decomposed if one.is_reliable]
    known = f"{len(reliable)} of {len(decomposed)} with enough of them"
    text = f"{table(reliable)}\n\nMedians and quartiles over the tasks whose trials can tell: {known}."
    if options.publish:
        publish.publish(options.publish, text, "knob_rates", arguments)
    print(text)


if __name__ == "__main__":
    main()
