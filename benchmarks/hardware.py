"""The paper's Tables 1 to 3 on this device: the best TFLOPS of every tuner for every operator.

    python -m benchmarks.hardware --target cuda                       # the paper's operators: days
    python -m benchmarks.hardware --trials 64 --repeats 3 --operators MM1 C1     # on this CPU

Tuners have their defaults and take turns; AutoTVM's own builder and runner measure. A stopped
benchmark resumes. Results go to a file (``--out``) with the device and the versions, and ``--show``
prints the tables of such a file.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import tvm
from tvm import autotvm

from autotvm_opevo.autotvm.targets import check_device
from benchmarks import library, operators, publish, tuners
from benchmarks.environment import environment
from benchmarks.paper import PAPER, TUNERS, tables
from benchmarks.resume import read, run_missing

# Seconds for one build, and for one run.
_TIMEOUT = 10


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
    if options.publish:
        publish.publish(options.publish, text, "hardware", arguments)
    print(text)


def run_all(options: argparse.Namespace, file: Path) -> list[dict[str, Any]]:
    """The results of all runs; those missing from the file are executed, and appended as they
    finish.
    """
    about = environment(options.target)
    jobs = [
        {
            "operator": operator,
            "tuner": tuner,
            "seed": seed,
            "trials": options.trials,
            "target": options.target,
            **about,
        }
        for seed in range(options.repeats)
        for operator in options.operators
        for tuner in _rotated(options.tuners, seed)  # each tuner is first in turn
    ]
    return run_missing(jobs, run, file, unit="run")


def _measure_option(target: tvm.target.Target) -> dict[str, Any]:
    """AutoTVM's builder and runner; devices other than CPUs take longer to reach full speed."""
    effort = {
        "number": 1,
        "repeat": 3,
        "min_repeat_ms": 50 if target.kind.name == "llvm" else 150,
        "cooldown_interval": 0,
    }
    return autotvm.measure_option(
        builder=autotvm.LocalBuilder(timeout=_TIMEOUT),
        runner=autotvm.LocalRunner(timeout=_TIMEOUT, **effort),
    )


def _rotated(names: list[str], seed: int) -> list[str]:
    first = seed % len(names)
    return names[first:] + names[:first]


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


if __name__ == "__main__":
    main()
