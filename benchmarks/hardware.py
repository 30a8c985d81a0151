"""The paper's Tables 1 to 3 on this device: the best TFLOPS of every tuner for every operator.

    python -m benchmarks.hardware --target cuda                       # the paper's operators: days
    python -m benchmarks.hardware --trials 64 --repeats 3 --operators MM1 C1     # on this CPU

Tuners have their defaults and take turns; AutoTVM's own builder and runner measure. A stopped
benchmark resumes. Results go to a file (``--out``) with the device and the versions, and ``--show``
prints the tables of such a file.
"""

from __future__ import annotations

import argparse
import math
import time
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import autotvm

from autotvm_opevo.autotvm.targets import check_device
from benchmarks import library, markdown, operators, publish, tuners
from benchmarks.environment import environment
from benchmarks.resume import in_turn, read, run_missing

# The last is not a tuner but numpy's product, on a CPU.
TUNERS = [
    *("G-BFS", "N-A2C", "XGB", "OpEvo-published", "OpEvo"),
    *("GA", "Random", "Grid", "Droplet", "NoSE", "library"),
]
# Tables 1 to 3, Nvidia GTX 1080Ti: TFLOPS after 500 trials, mean ± standard deviation, of G-BFS,
# N-A2C, AutoTVM (its XGBTuner) and OpEvo.
PAPER = {
    "MM1": ("7.22 ± 0.04", "6.39 ± 0.61", "4.86 ± 0.18", "6.89 ± 0.58"),
    "MM2": ("7.80 ± 0.57", "7.00 ± 0.90", "7.39 ± 0.20", "7.90 ± 0.84"),
    "MM3": ("6.98 ± 0.24", "6.77 ± 0.25", "6.91 ± 0.21", "6.89 ± 0.18"),
    "BMM1": ("", "", "4.30 ± 0.47", "5.46 ± 0.02"),
    "BMM2": ("", "", "5.11 ± 0.37", "5.65 ± 0.03"),
    "BMM3": ("", "", "4.34 ± 0.75", "4.82 ± 0.06"),
    "C1": ("", "", "3.36 ± 0.73", "3.62 ± 0.46"),
    "C2": ("", "", "6.33 ± 0.45", "8.00 ± 0.39"),
}
# Seconds for one build, and for one run: on a GPU, AutoTVM fills 0.7 GB at random for each of C1's.
_TIMEOUT, _GPU_TIMEOUT = 10, 30


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description="Measure the best TFLOPS of every tuner on this device."
    )
    parser.add_argument("--target", default="cuda" if tvm.cuda(0).exist else "llvm -mcpu=core-avx2")
    parser.add_argument("--operators", nargs="+", default=list(PAPER), choices=list(PAPER))
    parser.add_argument("--tuners", nargs="+", default=TUNERS, choices=TUNERS)
    parser.add_argument("--trials", type=int, default=500)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument(
        "--out", type=Path, help="results, one run per line (default: tuned/hardware-KIND.jsonl)"
    )
    publish.add_option(parser)
    parser.add_argument(
        "--show", type=Path, metavar="FILE", help="print the tables of this file, and run nothing"
    )
    options = parser.parse_args(arguments)
    if options.show:
        text = tables(read(options.show))
    else:
        kind = tvm.target.Target(options.target).kind.name
        check_device(tvm.target.Target(options.target), autotvm.LocalRunner())
        file = options.out or Path("tuned") / f"hardware-{kind}.jsonl"
        text = tables(run_all(options, file))
    publish.publish(options.publish, text, "hardware", arguments)


def run_all(options: argparse.Namespace, file: Path) -> list[dict[str, Any]]:
    """The results of all runs; those missing from the file are executed, and appended as they
    finish.
    """
    about = {"trials": options.trials, "target": options.target, **environment(options.target)}
    jobs = [
        {"operator": operator, "tuner": tuner, "seed": seed, **about}
        for seed in range(options.repeats)
        for operator in options.operators
        for tuner in in_turn(options.tuners, seed)
    ]
    return run_missing(jobs, run, file, unit="run")


def _measure_option(target: tvm.target.Target) -> dict[str, Any]:
    """AutoTVM's builder and runner; devices other than CPUs take longer to reach full speed."""
    is_cpu = target.kind.name == "llvm"
    timeout = _TIMEOUT if is_cpu else _GPU_TIMEOUT
    effort = {"number": 1, "repeat": 3, "min_repeat_ms": 50 if is_cpu else 150}
    return autotvm.measure_option(
        builder=autotvm.LocalBuilder(timeout=timeout),
        runner=autotvm.LocalRunner(timeout=timeout, cooldown_interval=0, **effort),
    )


def run(job: dict[str, Any]) -> dict[str, Any]:
    """Tune an operator once."""
    task, tuner = operators.task(job["operator"], job["target"]), job["tuner"]
    if tuner == "library":
        tflops = library.tflops(task)
        return {"unsupported": True} if tflops is None else {"tflops": tflops}
    if not tuners.handles(tuner, task):
        return {"unsupported": True}
    search = tuners.make(tuner, task, job["seed"])
    own = tuners.Stopwatch(search)
    failures = measured = 0

    def count(_: Any, inputs: Any, results: Any) -> None:
        nonlocal failures, measured
        measured += len(results)
        failures += sum(result.error_no != 0 for result in results)

    start = time.perf_counter()
    with tuners.quiet():
        search.tune(job["trials"], _measure_option(task.target), callbacks=[count])
    return {
        "tflops": search.best_flops / 1e12,
        "measured": measured,
        "failures": failures,
        "seconds": time.perf_counter() - start,
        "tuner_seconds": own.seconds,
    }


def tables(runs: list[dict[str, Any]]) -> str:
    """Markdown: TFLOPS beside the paper's, and the time that tuning took.

    Parameters
    ----------
    runs : list of dict
        Results, all with the same target and environment.
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
    for operator, paper in PAPER.items():
        if any((operator, tuner) in by for tuner in names):
            row = [[run["tflops"] for run in by[operator, tuner]] for tuner in names]
            cells = [_mean(values, _decimals(row)) for values in row]
            rows.append([operator, *cells, *paper])
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


if __name__ == "__main__":
    main()
