"""The paper's Tables 1 to 3 on the present device: the best TFLOPS that every tuner finds for every operator.

    python -m benchmarks.hardware --target cuda                       # the paper's operators: days
    python -m benchmarks.hardware --trials 64 --repeats 3 --operators MM1 C1     # on this CPU

Tuners have their defaults and take turns; the trials are measured by AutoTVM's own builder and runner. What was stopped goes on.
The results are in a file (``--out``) with the machine and the versions, and ``--show`` makes the tables of such a file.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import tvm
from tqdm import tqdm
from tvm import autotvm

from autotvm_opevo.autotvm.measurer import check_device, default_measure_option
from benchmarks import jsonl, library, operators, publish, tuners
from benchmarks.environment import machine
from benchmarks.paper import PAPER, TUNERS, tables


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
        text = tables(jsonl.read(options.show))
    else:
        kind = tvm.target.Target(options.target).kind.name
        check_device(tvm.target.Target(options.target), autotvm.LocalRunner())
        file = options.out or Path("tuned") / f"hardware-{kind}.jsonl"
        file.parent.mkdir(parents=True, exist_ok=True)
        text = tables(run_all(options, file))
    if options.publish:
        publish.publish(options.publish, text, "hardware", arguments)
    print(text)


def run_all(options: argparse.Namespace, file: Path) -> list[dict[str, Any]]:
    """All runs: those in the file already, and the others, which are added to it as they finish."""
    jobs = [
        {"operator": operator, "tuner": tuner, "seed": seed, "trials": options.trials, "target": options.target}
        for seed in range(options.repeats)
        for operator in options.operators
        for tuner in options.tuners[seed:] + options.tuners[:seed]  # nobody is always first
    ]
    jobs = [{**job, **machine(options.target)} for job in jobs]
    done = jsonl.read(file)
    missing = [job for job in jobs if not any(job.items() <= run.items() for run in done)]
    for job in tqdm(missing, initial=len(jobs) - len(missing), total=len(jobs), unit="run", disable=None):
        found = {**job, **run(*(job[name] for name in ("operator", "tuner", "seed", "trials", "target")))}
        jsonl.append(file, found)
        done.append(found)
    return [next(run for run in done if job.items() <= run.items()) for job in jobs]


def run(operator: str, tuner: str, seed: int, trials: int, target: str) -> dict[str, Any]:
    """Tune once."""
    task = operators.task(operator, target)
    if tuner == "library":
        found = library.tflops(task)
        return {"refused": True} if found is None else {"tflops": found}
    if not tuners.handles(tuner, task):
        return {"refused": True}
    search = tuners.make(tuner, task, seed)
    own = tuners.Stopwatch(search)
    failures = measured = 0

    def count(_: Any, inputs: Any, results: Any) -> None:
        nonlocal failures, measured
        measured += len(results)
        failures += sum(result.error_no != 0 for result in results)

    start = time.perf_counter()
    with tuners.quiet():
        search.tune(n_trial=trials, measure_option=default_measure_option(task.target, timeout=10), callbacks=[count])
    return {
        "tflops": search.best_flops / 1e12,
        "measured": measured,
        "failures": failures,
        "seconds": time.perf_counter() - start,
        "tuner_seconds": own.seconds,
    }


if __name__ == "__main__":
    main()
