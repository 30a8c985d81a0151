"""Time and memory that a report takes.

    python -m benchmarks.reports                    # 100,000 trials
    python -m benchmarks.reports --trials 10000

The log is synthetic: ten tasks with ten knobs each, and failures, in AutoTVM's format.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from autotvm_opevo import report
from autotvm_opevo.reporting.logs import open_logs
from autotvm_opevo.topology import Factorization

TASKS = 10


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Time and memory that a report takes.")
    parser.add_argument("--trials", type=int, default=100_000)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log.json"
        with open(log, "w") as file:
            file.writelines(synthetic_log(options.trials))
        before, start = _peak_memory(), time.perf_counter()
        open_logs([log])
        reading, after = time.perf_counter() - start, _peak_memory()
        start = time.perf_counter()
        page = report(log, out=Path(folder) / "report.html")
        total = time.perf_counter() - start
        size = page.stat().st_size
    print(f"{options.trials:,} trials of {TASKS} tasks: read in {reading:.1f} s, with {after - before:.0f} MiB of memory")
    print(f"report written in {total:.1f} s, {size / 2**20:.1f} MiB")


def synthetic_log(trials: int) -> Iterator[str]:
    """The lines of a log."""
    rng = np.random.default_rng(0)
    tiles = list(Factorization(512, parts=4))
    for trial in range(trials):
        chosen = rng.integers(len(tiles), size=6)
        entity: list[list[Any]] = [[f"tile_{k}", "sp", [-1, *tiles[i][1:]]] for k, i in enumerate(chosen)]
        entity += [["order", "re", rng.permutation(3).tolist()], ["vectorize", "an", ["vec"]]]
        entity += [["unroll", "ot", int(rng.choice([0, 16, 64]))], ["explicit", "ot", bool(rng.integers(2))]]
        failed = rng.random() < 0.1
        record = {
            "input": ["llvm", "conv2d", [["TENSOR", [1, trial % TASKS + 1], "float32"]], {}],
            "config": {"index": trial, "code_hash": None, "entity": entity},
            "result": [[1e9 if failed else float(rng.lognormal(-6))], 4 if failed else 0, 0.5, 1.795e9 + trial],
            "version": 0.2,
            "tvm_version": "0.17.0",
        }
        yield json.dumps(record) + "\n"


def _peak_memory() -> float:
    """Peak memory of this process so far, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
