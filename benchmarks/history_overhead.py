"""What a history of other tasks costs `OpEvoTuner`: time and memory to load it, and the tuner's own time in each trial.

    python -m benchmarks.history_overhead            # five minutes

A log of random configurations of thirty convolutions, with made-up times, is the history of the search for another one. It is
read by ``load_history``, as in TVM's tutorials, and as by ``tune_network(history=...)``, each in a process of its own. Memory is
what the process has at most, less what it had before.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from itertools import islice, product
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm
from tvm import autotvm, te, topi  # noqa: F401  topi registers the templates

from autotvm_opevo import OpEvoTuner
from autotvm_opevo.autotvm.history import read_history
from benchmarks import markdown
from benchmarks.overhead import made_up, milliseconds

TASKS, TRIALS, BATCH = 30, 64, 8
LOADERS = ("load_history", "history=")


def convolution(channels: int, size: int, kernels: int) -> Any:
    tensors = te.placeholder((1, channels, size, size)), te.placeholder((kernels, channels, 3, 3))
    arguments = (*tensors, (1, 1), (1, 1, 1, 1), (1, 1), "NCHW", "NCHW", "float32")
    return autotvm.task.create("conv2d_NCHWc.x86", args=arguments, target="llvm -mcpu=core-avx2")


def write_log(path: Path, records: int) -> None:
    """A log of equally many records of each task."""
    rng = np.random.default_rng(0)
    with open(path, "w") as file:
        for shape in tqdm(list(islice(product((16, 32, 64, 128), (7, 14, 28), (32, 64, 128)), TASKS)), leave=False, disable=None):
            task = convolution(*shape)
            configs = [task.config_space.get(int(i)) for i in rng.integers(len(task.config_space), size=records // TASKS)]
            file.writelines(autotvm.record.encode(*pair) + "\n" for pair in zip(*made_up(task, configs)))


def measure(path: Path, loader: str) -> list[float]:
    """Seconds to load the log, milliseconds a trial after that, and megabytes."""
    task = convolution(96, 28, 96)
    milliseconds(OpEvoTuner(task, seed=0), task, TRIALS, BATCH)  # what is loaded by the first search
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
    tuner = OpEvoTuner(task, seed=0)
    if loader == "load_history":
        tuner.load_history(autotvm.record.load_from_file(str(path)))
    else:
        tuner.learn_from(read_history([path], Path("log.json")).sources(task.name))
    loaded = time.perf_counter() - start
    cost = milliseconds(tuner, task, TRIALS, BATCH)
    return [loaded, cost, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1e3]


def main() -> None:
    parser = argparse.ArgumentParser(description="What a history of other tasks costs.")
    parser.add_argument("--records", type=int, nargs="+", default=[20_000, 100_000])
    parser.add_argument("--log", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--loader", choices=LOADERS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.log:
        print(*measure(options.log, options.loader))
        return
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "history.json"
        for records in options.records:
            write_log(path, records)
            for loader in LOADERS:
                command = [sys.executable, "-m", "benchmarks.history_overhead", "--log", str(path), "--loader", loader]
                done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=1800)
                loaded, cost, memory = map(float, done.stdout.split())
                rows.append([f"{records:,}", loader, f"{loaded:.1f}", f"{cost:.1f}", f"{memory:.0f}"])
    heads = [f"records of {TASKS} tasks", "read by", "s to load", f"ms a trial, {TRIALS} trials", "MB"]
    print(markdown.table(heads, rows))


if __name__ == "__main__":
    main()
