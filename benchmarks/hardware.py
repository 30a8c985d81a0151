"""The paper's Tables 1 to 3 on the present device: the best TFLOPS that every tuner finds for every operator.

    python -m benchmarks.hardware --target cuda                       # the paper's operators: days
    python -m benchmarks.hardware --trials 64 --repeats 3 --operators MM1 C1     # on this CPU

Tuners have their defaults and take turns; the trials are measured by AutoTVM's own builder and runner. What was stopped goes on.
The results are in a file (``--out``) with the machine and the versions, and ``--show`` makes the tables of such a file.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import platform
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

os.environ.setdefault("TOPHUB_LOCATION", "NONE")  # TVM would look for pre-tuned schedules on the network

import tvm
from tqdm import tqdm

from autotvm_opevo.autotvm.measuring import default_measure_option
from benchmarks import document, library, operators, tuners
from benchmarks.paper import PAPER, TUNERS, tables
from benchmarks.record import processor


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="The best TFLOPS that every tuner finds on this device.")
    parser.add_argument("--target", default="cuda" if tvm.cuda(0).exist else "llvm -mcpu=core-avx2")
    parser.add_argument("--operators", nargs="+", default=list(PAPER), choices=list(PAPER))
    parser.add_argument("--tuners", nargs="+", default=TUNERS, choices=TUNERS)
    parser.add_argument("--trials", type=int, default=500)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, help="results, one run a line (default: tuned/hardware-KIND.jsonl)")
    parser.add_argument("--publish", metavar="SECTION", help="of docs/results.md, which gets the tables")
    parser.add_argument("--show", type=Path, metavar="FILE", help="only make the tables of such a file")
    options = parser.parse_args(arguments)
    if options.show:
        text = tables(list(map(json.loads, options.show.read_text().splitlines())))
    else:
        kind = tvm.target.Target(options.target).kind.name
        file = options.out or Path("tuned") / f"hardware-{kind}.jsonl"
        file.parent.mkdir(parents=True, exist_ok=True)
        text = tables(run_all(options, file))
    if options.publish:
        document.publish(options.publish, text, "benchmarks.hardware", arguments)
    print(text)


def run_all(options: argparse.Namespace, file: Path) -> list[dict[str, Any]]:
    """All runs: those in the file already, and the others, which are added to it as they finish."""
    logging.getLogger("autotvm").setLevel(logging.ERROR)
    jobs = [
        {"operator": operator, "tuner": tuner, "seed": seed, "trials": options.trials, "target": options.target}
        for seed in range(options.repeats)
        for operator in options.operators
        for tuner in options.tuners[seed:] + options.tuners[:seed]  # nobody is always first
    ]
    done = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    missing = [job for job in jobs if not any(job.items() <= run.items() for run in done)]
    with open(file, "a") as log:
        for job in tqdm(missing, initial=len(jobs) - len(missing), total=len(jobs), unit="run", disable=None):
            found = {**job, **run(**job), **machine(options.target)}
            log.write(json.dumps(found) + "\n")
            log.flush()
            done.append(found)
    return [next(run for run in done if job.items() <= run.items()) for job in jobs]


def run(operator: str, tuner: str, seed: int, trials: int, target: str) -> dict[str, Any]:
    """Tune once."""
    task = operators.task(operator, target)
    if tuner == "library":
        found = library.tflops(task)
        return {"refused": True} if found is None else {"tflops": found}
    try:
        search = tuners.make(tuner, task, seed)
    except ValueError:
        return {"refused": True}
    own = _Stopwatch()
    for method in ("has_next", "next_batch", "update"):
        setattr(search, method, own.timed(getattr(search, method)))
    failures = 0

    def count(_: Any, inputs: Any, results: Any) -> None:
        nonlocal failures
        failures += sum(result.error_no != 0 for result in results)

    start = time.perf_counter()
    search.tune(n_trial=trials, measure_option=default_measure_option(task.target, timeout=10), callbacks=[count])
    return {
        "tflops": search.best_flops / 1e12,
        "failures": failures,
        "seconds": time.perf_counter() - start,
        "tuner_seconds": own.seconds,
    }


class _Stopwatch:
    """Adds up the seconds spent in some functions."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            start = time.perf_counter()
            try:
                return function(*arguments)
            finally:
                self.seconds += time.perf_counter() - start

        return call


def machine(target: str) -> dict[str, str]:
    """What a result depends on."""
    kind = tvm.target.Target(target).kind.name
    device = processor() if kind == "llvm" else tvm.device(kind, 0).device_name
    return {"device": device, "python": platform.python_version(), "tvm": tvm.__version__, "xgboost": _version("xgboost-cpu")}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "?"


if __name__ == "__main__":
    main()
