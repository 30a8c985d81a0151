"""OpEvo compared with TVM's evolutionary search in MetaSchedule, on this machine.

    python -m benchmarks.meta_schedule                        # four operators: hours
    python -m benchmarks.meta_schedule --workloads MM1 C2     # less
    # shapes that no search was developed on
    python -m benchmarks.meta_schedule --workloads MM-h C3-h C4-h DW-h --trials 32 64

The strategies take turns, with the same builder, runner and number of trials. TVM's search has its
defaults, rounds of 64 and an XGBoost cost model, which predicts at random up to 100 samples. The
best schedules after some numbers of trials are then built and timed again, in turn, in one process.
A stopped benchmark resumes.
"""

from __future__ import annotations

import argparse
import logging
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.meta_schedule.arg_info import ArgInfo
from tvm.s_tir.meta_schedule.measure_callback import PyMeasureCallback

from autotvm_opevo.meta_schedule import LocalBuilder, LocalRunner, OpEvoStrategy
from autotvm_opevo.meta_schedule.intrinsics import import_tensor_intrinsics
from autotvm_opevo.tuning.programs import random_arrays
from autotvm_opevo.tuning.record_lines import seconds
from benchmarks import markdown, publish
from benchmarks.environment import environment
from benchmarks.resume import in_turn, run_missing
from benchmarks.statistics import geometric_mean_interval
from benchmarks.workloads import CPU, WORKLOADS, cpu

BASELINE = "evolutionary + XGBoost"
STRATEGIES: dict[str, Any] = {
    BASELINE: lambda seed: {"strategy": "evolutionary", "cost_model": "xgb"},
    "OpEvo": lambda seed: {"strategy": OpEvoStrategy(seed=seed), "cost_model": "none"},
    "no transfer": lambda seed: {
        "strategy": OpEvoStrategy(seed=seed, transfer=False),
        "cost_model": "none",
    },
}
# How often the best schedules are timed again, and the least duration of each timing.
_REPEAT, _MIN_REPEAT_MS = 7, 50


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description="Compare OpEvo with TVM's evolutionary search in MetaSchedule."
    )
    parser.add_argument("--workloads", nargs="+", default=[*CPU], choices=[*WORKLOADS])
    parser.add_argument(
        "--trials",
        type=int,
        nargs="+",
        default=[64, 128, 256],
        help="numbers of trials to compare after (default: 64 128 256)",
    )
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument(
        "--builder",
        choices=["quick", "tvm"],
        default="quick",
        help="this package's builder and runner, or TVM's",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("tuned/meta-schedule.jsonl"),
        help="results, one repetition per line",
    )
    publish.add_option(parser)
    options = parser.parse_args(arguments)
    about = {"trials": options.trials, "builder": options.builder, **environment("llvm")}
    jobs = [
        {"workload": workload, "seed": seed, **about}
        for seed in range(options.seeds)
        for workload in options.workloads
    ]
    import_tensor_intrinsics()  # not in the time of the first strategy
    runs = run_missing(jobs, repetition, options.out, unit="repetition")
    latencies, ratios, times = tables(runs)
    text = "\n\n".join([latencies, ratios, times])
    publish.publish(options.publish, text, "meta_schedule", arguments, summary=ratios)


def repetition(job: dict[str, Any]) -> dict[str, Any]:
    """Run every strategy once, each first in turn, and time its best schedules again, in
    seconds.
    """
    results: dict[str, dict[str, Any]] = {}
    bests: dict[tuple[str, int], Any] = {}
    for name in in_turn([*STRATEGIES], job["seed"]):
        best, results[name] = tuned(job, STRATEGIES[name](job["seed"]))
        bests.update({(name, n): mod for n, mod in best.items()})
    latencies = time_in_turn(list(bests.values()))
    for (name, n), latency in zip(bests, latencies):
        results[name].setdefault("retimed", {})[str(n)] = latency
    return {"results": results}


def tuned(job: dict[str, Any], options: dict[str, Any]) -> tuple[dict[int, Any], dict[str, Any]]:
    """Tune once; return the best schedule after each number of trials, and the measurements."""
    measured: list[tuple[float, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        logging.getLogger("tvm.s_tir.meta_schedule").setLevel(logging.ERROR)
        start = time.perf_counter()
        ms.tune_tir(
            WORKLOADS[job["workload"]](),
            cpu(),
            folder,
            max(job["trials"]),
            **_builder_and_runner(job["builder"]),
            measure_callbacks=[*ms.MeasureCallback.create("default"), RecordMeasurements(measured)],
            seed=job["seed"] + 1,
            **options,
        )
        elapsed = time.perf_counter() - start
    latencies = [latency for latency, _ in measured]
    best = {n: measured[int(np.argmin(latencies[:n]))][1] for n in job["trials"]}
    return best, {"latencies": latencies, "seconds": elapsed}


def time_in_turn(mods: Sequence[tvm.IRModule]) -> list[float]:
    """The median latency of each schedule in seconds; the schedules are timed in turn."""
    functions = [tvm.compile(mod, cpu()).jit() for mod in mods]
    tensors = ArgInfo.from_entry_func(mods[0], remove_preproc=True)
    arguments = [tvm.runtime.tensor(array) for array in random_arrays(tensors)]
    evaluators = [
        f.time_evaluator("main", tvm.cpu(), number=1, min_repeat_ms=_MIN_REPEAT_MS)
        for f in functions
    ]
    # TVM binds a thread that runs a parallel loop to one core, which what is started afterwards
    # would inherit
    cores = os.sched_getaffinity(0)
    rounds = [[evaluate(*arguments).mean for evaluate in evaluators] for _ in range(_REPEAT)]
    os.sched_setaffinity(0, cores)
    return [float(median) for median in np.median(rounds, axis=0)]


@derived_object
class RecordMeasurements(PyMeasureCallback):
    """Append every latency and schedule to a list, in the order of measurement."""

    def __init__(self, measured: list[tuple[float, Any]]) -> None:
        super().__init__()
        self._measured = measured

    def apply(
        self, task_scheduler: Any, task_id: int, candidates: Any, builds: Any, results: Any
    ) -> None:
        self._measured += [
            (seconds(result.run_secs), candidate.sch.mod)
            for candidate, result in zip(candidates, results)
        ]


def _builder_and_runner(name: str) -> dict[str, Any]:
    if name == "quick":
        return {"builder": LocalBuilder(link=True), "runner": LocalRunner()}
    return {"builder": ms.builder.LocalBuilder(), "runner": ms.runner.LocalRunner()}


def tables(runs: Sequence[dict[str, Any]]) -> tuple[str, str, str]:
    """Markdown: latencies of the best schedules, speedups over the baseline, and tuning times."""
    workloads = list(dict.fromkeys(run["workload"] for run in runs))
    results = {
        workload: [run["results"] for run in runs if run["workload"] == workload]
        for workload in workloads
    }
    return _latencies(results), _ratios(results), _tuning_times(results)


Results = dict[str, list[dict[str, Any]]]
METHODS = [name for name in STRATEGIES if name != BASELINE]


def _latencies(results: Results) -> str:
    rows = [
        [workload, n, *_row(mine, n)]
        for workload, mine in results.items()
        for n in mine[0][BASELINE]["retimed"]
    ]
    columns = [
        *(f"{name} (ms)" for name in STRATEGIES),
        *(f"speedup of {name}" for name in METHODS),
    ]
    return markdown.table(["workload", "trials", *columns], rows)


def _row(mine: Sequence[dict[str, Any]], n: str) -> list[str]:
    """For one workload after `n` trials: each strategy's latency, and the methods' speedup over the
    baseline.
    """
    latency = {name: np.array([of[name]["retimed"][n] for of in mine]) * 1e3 for name in STRATEGIES}
    cells = [f"{np.median(x):.3g} ({x.min():.3g} to {x.max():.3g})" for x in latency.values()]
    return cells + [
        f"{np.exp(np.log(latency[BASELINE] / latency[name]).mean()):.2f}" for name in METHODS
    ]


def _ratios(results: Results) -> str:
    """Speedups and ratios of tuning times over all operators, with confidence intervals."""
    rows = []
    for name in METHODS:
        ratios = {
            f"speedup after {n} trials": [
                [of[BASELINE]["retimed"][n] / of[name]["retimed"][n] for of in mine]
                for mine in results.values()
            ]
            for n in next(iter(results.values()))[0][BASELINE]["retimed"]
        }
        ratios["ratio of tuning times"] = [
            [of[name]["seconds"] / of[BASELINE]["seconds"] for of in mine]
            for mine in results.values()
        ]
        for what, values in ratios.items():
            mean, low, high = geometric_mean_interval(values)
            rows.append([name, what, f"{mean:.3f}", f"{low:.3f} to {high:.3f}"])
    return markdown.table(["strategy", f"over {BASELINE}", "geometric mean", "95% interval"], rows)


def _tuning_times(results: Results) -> str:
    rows = []
    for workload, mine in results.items():
        times = [[of[name]["seconds"] for of in mine] for name in STRATEGIES]
        cells = [f"{np.mean(s):.0f} ± {np.std(s, ddof=min(1, len(s) - 1)):.0f}" for s in times]
        rows.append([workload, *cells])
    return markdown.table(
        ["workload", *(f"{name} (seconds of tuning)" for name in STRATEGIES)], rows
    )


if __name__ == "__main__":
    main()
