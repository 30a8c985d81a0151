"""Every tuner on every landscape, from many seeds: who finds good configurations in how many trials?

    python -m benchmarks.compare                                      # or: make bench; most of the time is XGBTuner's
    python -m benchmarks.compare --tuners OpEvo GA --seeds 30
    python -m benchmarks.compare --landscapes FOLDER ... --mode blind

Tuners are AutoTVM's own, unmodified, and this package's; all have their defaults and run through ``tuner.tune`` in batches of 8
(Droplet: 16, its own). A comparison that was stopped goes on. In ``--out`` are then ``runs.csv``, ``tables.md`` and
``pictures/``.
"""

from __future__ import annotations

import argparse
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from benchmarks import plots, publish
from benchmarks.arena import curves, jobs, run_all
from benchmarks.landscape import FOLDER
from benchmarks.tables import tables, write_csv
from benchmarks.tuners import NAMES, QWALK


def main(
    arguments: list[str] | None = None,
    tuners: Sequence[str] = tuple(NAMES),
    champions: Sequence[str] = (QWALK, "OpEvo"),
    name: str = "compare",
    published_pictures: bool = True,
) -> None:
    parser = argparse.ArgumentParser(description="Compare tuners by replaying landscapes.")
    parser.add_argument("--landscapes", nargs="+", type=Path, default=[FOLDER], help="files, or folders of them")
    parser.add_argument("--mode", choices=["known", "blind", "both"], default="both", help="of landscapes with gaps")
    parser.add_argument("--tuners", nargs="+", choices=tuners, default=tuners)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--trials", type=int, default=512)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, default=Path("tuned") / name.replace(" ", "-"))
    parser.add_argument("--publish", metavar="SECTION", help="of docs/results.md, which gets the tables and pictures")
    options = parser.parse_args(arguments)
    files = [file for path in options.landscapes for file in (sorted(path.glob("*.npz")) if path.is_dir() else [path])]
    if not files:
        parser.error(f"there are no landscapes in {', '.join(map(str, options.landscapes))}")
    options.out.mkdir(parents=True, exist_ok=True)
    made = jobs(files, options.tuners, options.mode, options.seeds, options.trials)
    results = run_all(made, options.out / "runs.jsonl", options.workers)
    write_csv(results, options.out / "runs.csv")
    text = tables(results, champions)
    (options.out / "tables.md").write_text(text)
    shutil.rmtree(options.out / "pictures", ignore_errors=True)  # those of other landscapes
    plots.draw(curves(results), options.out / "pictures")
    if options.publish:
        shown = options.out / "pictures" if published_pictures else None
        publish.publish(options.publish, text, name, arguments, shown)
    print(text)


if __name__ == "__main__":
    main()
