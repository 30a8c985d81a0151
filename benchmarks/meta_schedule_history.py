"""What a database costs MetaSchedule's `OpEvoStrategy` as history: time and memory to read it.

    python -m benchmarks.meta_schedule_history       # two minutes

The database has records of fourteen convolutions: 32 random candidates of each, again and again with other made-up latencies. It
is read in a process of its own; memory is what the process has at most, less what it had before.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from itertools import product
from pathlib import Path

import numpy as np
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.meta_schedule.database import TuningRecord

from autotvm_opevo.meta_schedule import open_database
from autotvm_opevo.meta_schedule.history import read_history
from autotvm_opevo.meta_schedule.intrinsics import import_tensor_intrinsics
from autotvm_opevo.meta_schedule.space import DecisionSpace
from autotvm_opevo.tuning.logs import RECORD_FILE
from benchmarks import markdown
from benchmarks.workloads import convolution, cpu

CANDIDATES = 32
SHAPES = list(product((16, 32), (7, 14, 28, 56), (64, 128)))[:14]


def write_database(folder: Path, records: int) -> None:
    """Equally many records of each convolution."""
    rng, database = np.random.default_rng(0), open_database(folder)
    for channels, size, kernels in SHAPES:
        mod = convolution((1, channels, size, size), (kernels, channels, 3, 3), 1, 1)
        context = ms.TuneContext(mod, target=cpu(), space_generator="post-order-apply", rand_state=1)
        decisions = DecisionSpace(context.mod, context.generate_design_space(), context.space_generator.postprocs)
        workload, found = database.commit_workload(context.mod), 0
        while found < CANDIDATES:
            candidate, _ = decisions.candidate(decisions.space.sample(rng))
            if candidate is not None:
                trace, arguments = candidate.sch.trace, candidate.args_info
                database.commit_tuning_record(TuningRecord(trace, workload, [1e-3], context.target, arguments))
                found += 1
    values = [json.loads(line) for line in (folder / RECORD_FILE).read_text().splitlines()]
    with open(folder / RECORD_FILE, "w") as file:
        for number in range(records):
            workload, (trace, _, *rest) = values[number % len(values)]
            file.write(json.dumps([workload, [trace, [float(rng.uniform(1e-3, 1e-2))], *rest]]) + "\n")


def measure(folder: Path) -> list[float]:
    """Seconds and megabytes."""
    import_tensor_intrinsics()
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
    read_history([folder])
    return [time.perf_counter() - start, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024]


def main() -> None:
    parser = argparse.ArgumentParser(description="What a database costs as history.")
    parser.add_argument("--records", type=int, nargs="+", default=[2_000, 20_000, 100_000])
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.measure)))
        return
    rows = []
    for records in options.records:
        with tempfile.TemporaryDirectory() as folder:
            write_database(Path(folder), records)
            command = [sys.executable, "-m", "benchmarks.meta_schedule_history", "--measure", folder]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            seconds, megabytes = json.loads(done.stdout.splitlines()[-1])
        rows.append([f"{records:,}", f"{seconds:.1f}", f"{megabytes:.0f}"])
    print(markdown.table(["records", "seconds", "MB"], rows))


if __name__ == "__main__":
    main()
