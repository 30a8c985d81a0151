"""What ``make tune`` shows, over seeds: how often OpEvoTuner is ahead of XGBTuner, and how near both are to the best known.

    python -m benchmarks.demonstration                  # ten seeds, half an hour on two idle cores

The best that is known is the fastest rebuilt configuration of all runs. A stopped benchmark resumes.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks import markdown, publish

OURS, BASELINE = "OpEvoTuner", "XGBTuner"
# Of the best that is known, and of what was measured while tuning, a good configuration reaches so much when it is rebuilt.
GOOD = 0.9


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Run make tune with several seeds.")
    parser.add_argument("--seeds", type=int, default=10, help="from 0 on (default: 10)")
    parser.add_argument("--out", type=Path, default=Path("tuned/demonstration"), help="folder of the runs")
    parser.add_argument(
        "--publish", type=publish.section, metavar="SECTION", help="write the table to this section of docs/results"
    )
    options = parser.parse_args(arguments)
    runs = []
    for seed in range(options.seeds):
        folder = options.out / str(seed)
        if not (folder / "figures.json").exists():
            command = [sys.executable, "-m", "benchmarks.tune_matmul", "--seed", str(seed), "--out", str(folder)]
            subprocess.run(command, check=True)
        runs.append(json.loads((folder / "figures.json").read_text()))
    text = table(runs)
    if options.publish:
        publish.publish(options.publish, text, "demonstration", arguments)
    print(text)


def table(runs: list[dict[str, Any]]) -> str:
    """Markdown: a row for each run, and what they have in common."""
    known = max(value for run in runs for value in run["now"].values())
    rows = []
    for run in runs:
        row = [str(run["seed"])]
        for name in (OURS, BASELINE):
            row += [f"{run['now'][name]:.1f}", f"{run['best'][name]:.1f}", f"{run['seconds'][name][0]:.0f}"]
        rows.append([*row, f"{run['now'][OURS] / run['now'][BASELINE]:.2f}", f"{run['now'][OURS] / known:.2f}"])
    head = ["seed", *(f"{name}{what}" for name in (OURS, BASELINE) for what in (": GFLOPS", ", while tuning", ", seconds"))]
    count = len(runs)
    ahead = sum(run["now"][OURS] > run["now"][BASELINE] for run in runs)
    good = {name: sum(run["now"][name] >= GOOD * known for run in runs) for name in (OURS, BASELINE)}
    kept = sum(run["now"][OURS] >= GOOD * run["best"][OURS] for run in runs)
    share = f"{GOOD:.0%}"
    note = f"""\
The best that is known has {known:.1f} GFLOPS. Rebuilt and timed in turn, {OURS}'s configuration is faster in {ahead} of {count}
runs; it reaches {share} of the best that is known in {good[OURS]} and {BASELINE}'s in {good[BASELINE]}, and {share} of what it
had while tuning in {kept}."""
    return f"{note}\n\n{markdown.table([*head, 'ratio', 'of the best'], rows)}"


if __name__ == "__main__":
    main()
