"""What ``make tune`` shows, over seeds: how often OpEvoTuner is ahead of XGBTuner, and how near
both are to the best known.

    python -m benchmarks.demonstration  # ten seeds, three quarters of an hour on two idle cores

At the end the configurations of all runs are rebuilt and timed interleaved, since a machine is not
always as fast. The best known is the fastest of them. A stopped benchmark resumes.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import tvm

from benchmarks import markdown, plots, publish
from benchmarks.tune_matmul import (
    BASELINE,
    EQUAL,
    EQUAL_TRIALS,
    OURS,
    build,
    load,
    make_task,
    time_in_turn,
)

# Of the best known, and of what was measured while tuning, a good configuration reaches so much
# when it is rebuilt.
GOOD = 0.9


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Run make tune with several seeds.")
    parser.add_argument("--target", help="TVM target (default: this machine's CPU)")
    parser.add_argument("--seeds", type=int, default=10, help="from 0 on (default: 10)")
    parser.add_argument(
        "--out", type=Path, default=Path("tuned/demonstration"), help="folder of the runs"
    )
    publish.add_option(parser)
    parser.add_argument(
        "--picture",
        type=Path,
        help="draw what both tuners' rebuilt configurations reach, run by run",
    )
    options = parser.parse_args(arguments)
    command = [sys.executable, "-m", "benchmarks.tune_matmul"]
    if options.target:
        command += ["--target", options.target]
    runs = []
    for seed in range(options.seeds):
        folder = options.out / str(seed)
        if not (folder / "figures.json").exists():
            subprocess.run([*command, "--seed", str(seed), "--out", str(folder)], check=True)
        runs.append(json.loads((folder / "figures.json").read_text()))
    gflops = rebuilt(options.out, runs)
    text = table(runs, gflops)
    if options.picture:
        pairs = [(now[BASELINE], now[OURS]) for now in gflops]
        plots.draw_pairs(pairs, (BASELINE, OURS), "GFLOPS", options.picture)
    note = text.partition("\n\n")[0]
    publish.publish(options.publish, text, "demonstration", arguments, summary=note)


def rebuilt(out: Path, runs: list[dict[str, Any]]) -> list[dict[str, float]]:
    """GFLOPS of each run's configurations, by name: those of all runs, interleaved."""
    task = make_task(tvm.target.Target(runs[0]["target"]))
    records = [load(out / str(run["seed"]), run["trials"][BASELINE]) for run in runs]
    functions = [build(task, one) for of_run in records for one in of_run.values()]
    gflops = iter(time_in_turn(task, functions, tvm.device(task.target.kind.name, 0)))
    return [dict(zip(of_run, gflops)) for of_run in records]


def table(runs: list[dict[str, Any]], rebuilt: list[dict[str, float]]) -> str:
    """Markdown: a row for each run, and what they have in common; GFLOPS of the rebuilt
    configurations by run and name.
    """
    known = max(value for now in rebuilt for value in now.values())
    rows = []
    for run, now in zip(runs, rebuilt):
        row = [str(run["seed"])]
        for name in (BASELINE, EQUAL_TRIALS, OURS):
            row += [f"{run['seconds'][name]:.0f}", str(run["trials"][name])]
            row += [f"{run['best'][name]:.1f}", f"{now[name]:.1f}"]
        ratios = now[EQUAL_TRIALS] / now[BASELINE], now[OURS] / now[BASELINE], now[OURS] / known
        rows.append([*row, *(f"{ratio:.2f}" for ratio in ratios)])
    head = ["seed"]
    for name in (BASELINE, EQUAL_TRIALS, OURS):
        head += [f"{name}: s", "trials", "GFLOPS while tuning", "rebuilt"]
    head += ["ratio, as many trials", "ratio, as long", "of the best known"]
    count = len(runs)
    ahead = {
        name: counts(now[name] / now[BASELINE] for now in rebuilt) for name in (OURS, EQUAL_TRIALS)
    }
    good = {
        name: sum(now[name] >= GOOD * known for now in rebuilt)
        for name in (OURS, EQUAL_TRIALS, BASELINE)
    }
    kept = sum(now[OURS] >= GOOD * run["best"][OURS] for run, now in zip(runs, rebuilt))
    note = f"""\
The best known configuration reaches {known:.1f} GFLOPS. The results of {count} runs are rebuilt,
and timed interleaved. Against {BASELINE}'s, {OURS}'s is {ahead[OURS]} after equal
time. After equal trials it is {ahead[EQUAL_TRIALS]}. It reaches {GOOD:.0%} of the best known in
{good[OURS]} runs, after equal trials in {good[EQUAL_TRIALS]}, {BASELINE}'s in {good[BASELINE]}.
When rebuilt, {kept} of {count} keep {GOOD:.0%} of their tuning-time speed."""
    return f"{note}\n\n{markdown.table(head, rows)}"


def counts(ratios: Iterable[float]) -> str:
    """How many are above 1, and how many equal, as far as noise lets tell.

    >>> counts([1.1, 1.01, 0.9])
    'faster in 1, within 2% in 1, slower in 1'
    """
    signs = [(ratio > EQUAL) - (ratio < 1 / EQUAL) for ratio in ratios]
    return (
        f"faster in {signs.count(1)}, within {EQUAL - 1:.0%} in {signs.count(0)}, "
        f"slower in {signs.count(-1)}"
    )


if __name__ == "__main__":
    main()
