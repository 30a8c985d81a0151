"""Compare tuners on landscapes over many seeds: how good is the best configuration after how many
trials?

    python -m benchmarks.compare  # or: make bench; most of the time is XGBTuner's
    python -m benchmarks.compare --tuners OpEvo GA --seeds 30
    python -m benchmarks.compare --landscapes FOLDER ... --mode hidden

The tuners are this package's and AutoTVM's, unmodified, at their defaults; all run through
``tuner.tune``, in batches of 8 (Droplet: 16, its default). A stopped comparison resumes. The folder
``--out`` gets ``runs.jsonl``, ``tables.md`` and ``pictures/``.
"""

from __future__ import annotations

import argparse
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks import plots, publish
from benchmarks.landscape import FOLDER
from benchmarks.runs import find_landscapes, jobs, run_all
from benchmarks.tables import BASELINE, curves, everywhere, merge_xgb, summary, tables
from benchmarks.tuners import LEFT_OUT, NAMES, NO_TRANSFER


def main(
    arguments: list[str] | None = None,
    tuners: Sequence[str] = tuple(NAMES),
    methods: Sequence[str] = ("OpEvo", NO_TRANSFER, LEFT_OUT, "OpEvo-published"),
    name: str = "compare",
) -> None:
    """Run the command. `tuners` are allowed, and run by default, but for those with fewer
    records; `methods` are compared with each other one; `name` is the module's, followed by its own
    arguments.
    """
    parser = argparse.ArgumentParser(description="Compare tuners on recorded search spaces.")
    parser.add_argument(
        "--landscapes", nargs="+", type=Path, default=[FOLDER], help="files, or folders of them"
    )
    parser.add_argument(
        "--mode",
        choices=["known", "hidden", "both"],
        default="both",
        help="constraints of incomplete landscapes",
    )
    # most recorded spaces have no bundled tuning records
    default = [name for name in tuners if name not in (NO_TRANSFER, LEFT_OUT)]
    parser.add_argument("--tuners", nargs="+", choices=tuners, default=default)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--trials", type=int, default=512)
    parser.add_argument(
        "--batch", type=int, default=8, help="configurations that are measured at once (default: 8)"
    )
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, default=Path("tuned") / name.replace(" ", "-"))
    parser.add_argument(
        "--picture",
        type=Path,
        help="where to draw all landscapes together, without baselines but XGB",
    )
    publish.add_option(parser)
    options = parser.parse_args(arguments)
    files = find_landscapes(options.landscapes, parser)
    made = jobs(files, options.tuners, options.mode, options.seeds, options.trials, options.batch)
    results = run_all(made, options.out / "runs.jsonl", options.workers)
    text = tables(results, methods)
    (options.out / "tables.md").write_text(text)
    # of an earlier choice of landscapes
    shutil.rmtree(options.out / "pictures", ignore_errors=True)
    for landscape, by in curves(results).items():
        file = f"{landscape.replace(', ', '-')}.png"
        plots.draw(by, landscape, options.out / "pictures" / file)
    if options.picture:
        merged = curves(merge_xgb(results))
        shown = [tuner for tuner in everywhere(merged) if tuner in (*methods, BASELINE)]
        together = {
            tuner: np.concatenate([runs[tuner] for runs in merged.values()]) for tuner in shown
        }
        plots.draw(together, f"{len(merged)} search spaces", options.picture)
    short = summary(results) if options.publish else None  # takes as long as the tables
    publish.publish(options.publish, text, name, arguments, short)


if __name__ == "__main__":
    main()
