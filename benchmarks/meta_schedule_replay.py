"""Searches in MetaSchedule on landscapes that are recorded as they search, in TVM's own loop.

    .venv/tvm/bin/python -m benchmarks.meta_schedule_replay
    .venv/tvm/bin/python -m benchmarks.meta_schedule_replay --methods OpEvo "no transfer" \\
        --runs tuned/variant.jsonl

A candidate's latency is that of its first measurement (`benchmarks.recorded_candidates`), whoever
proposed it, so a difference between searches is one of their proposals. The table says how many of
the proposals had no entry and were measured. A stopped benchmark resumes; after a change to a
search, name another file for its runs.
"""

from __future__ import annotations

import argparse
import logging
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import gmean
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.meta_schedule.measure_callback import AddToDatabase, UpdateCostModel

from autotvm_opevo.meta_schedule import OpEvoStrategy
from autotvm_opevo.meta_schedule.database import import_tensor_intrinsics
from benchmarks import markdown, publish
from benchmarks.environment import environment
from benchmarks.meta_schedule import STRATEGIES, RecordMeasurements
from benchmarks.recorded_candidates import RecordedCandidates
from benchmarks.resume import run_missing
from benchmarks.statistics import geometric_mean_interval
from benchmarks.workloads import CPU, HELD_OUT, cpu, depthwise, softmax

DEVELOPMENT: dict[str, Callable[[], Any]] = {
    **CPU,
    "DW": lambda: depthwise((1, 96, 56, 56), 1),
    "softmax": lambda: softmax((512, 1000)),
}
METHODS: dict[str, Callable[[int], dict[str, Any]]] = {
    **STRATEGIES,
    "published": lambda seed: {
        "strategy": OpEvoStrategy(seed=seed, surrogate=None),
        "cost_model": "none",
    },
    "random": lambda seed: {"strategy": "replay-trace", "cost_model": "none"},
}
CHECKPOINTS = (16, 32, 64, 128)
_FIRST = 32


def main(arguments: list[str] | None = None) -> None:
    workloads = {**DEVELOPMENT, **HELD_OUT}
    parser = argparse.ArgumentParser(
        description="Compare searches in MetaSchedule on search spaces that they record."
    )
    parser.add_argument("--workloads", nargs="+", default=[*DEVELOPMENT], choices=[*workloads])
    parser.add_argument("--methods", nargs="+", default=[*STRATEGIES], choices=[*METHODS])
    parser.add_argument("--trials", type=int, default=CHECKPOINTS[-1])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument(
        "--landscapes",
        type=Path,
        default=Path("tuned/landscapes"),
        help="folder with one file per workload",
    )
    parser.add_argument(
        "--runs",
        type=Path,
        default=Path("tuned/meta-schedule-replay.jsonl"),
        help="results, one run per line",
    )
    publish.add_option(parser)
    options = parser.parse_args(arguments)
    import_tensor_intrinsics()
    about = environment("llvm")
    landscapes = {
        name: RecordedCandidates(options.landscapes / f"{name}.jsonl", about)
        for name in options.workloads
    }
    jobs = [
        {"workload": workload, "method": method, "seed": seed, "trials": options.trials, **about}
        for seed in range(options.seeds)
        for workload in options.workloads
        for method in options.methods
    ]

    def run(job: dict[str, Any]) -> dict[str, Any]:
        return replay(
            workloads[job["workload"]](),
            landscapes[job["workload"]],
            METHODS[job["method"]](job["seed"]),
            job,
        )

    runs = run_missing(jobs, run, options.runs, unit="run")
    qualities, speedups = tables(
        runs,
        {name: best(landscape, runs, name) for name, landscape in landscapes.items()},
        options.methods,
    )
    text = f"{qualities}\n\n{speedups}"
    if options.publish:
        publish.publish(options.publish, text, "meta_schedule_replay", arguments, summary=speedups)
    print(text)


def replay(
    mod: Any, landscape: RecordedCandidates, options: dict[str, Any], job: dict[str, Any]
) -> dict[str, Any]:
    """One search; returns the latency of each trial, and how many of them were measured now."""
    measured: list[tuple[float, Any]] = []
    before = landscape.measured
    logging.getLogger("tvm.s_tir.meta_schedule").setLevel(logging.ERROR)  # each time: TVM resets it
    with tempfile.TemporaryDirectory() as folder:
        ms.tune_tir(
            mod,
            cpu(),
            folder,
            job["trials"],
            builder=landscape.builder,
            runner=landscape.runner,
            # TVM's without the one that removes artifacts: not all candidates were built.
            measure_callbacks=[AddToDatabase(), UpdateCostModel(), RecordMeasurements(measured)],
            seed=job["seed"] + 1,
            **options,
        )
    latencies = [latency if np.isfinite(latency) else None for latency, _ in measured]
    return {"latencies": latencies, "new": landscape.measured - before}


def best(landscape: RecordedCandidates, runs: Sequence[dict[str, Any]], workload: str) -> float:
    """The least latency known of a workload in seconds."""
    found = [latency for run in runs if run["workload"] == workload for latency in run["latencies"]]
    return min(filter(None, [*landscape.seconds.values(), *found]))


def tables(
    runs: Sequence[dict[str, Any]], fastest: dict[str, float], methods: Sequence[str]
) -> tuple[str, str]:
    """Markdown: quality after some trials for each workload, and speedups over the first method."""
    names = list(dict.fromkeys(run["workload"] for run in runs))
    trials = runs[0]["trials"]
    checkpoints = [*(n for n in CHECKPOINTS if n < trials), trials]
    curves = {
        (name, method): np.array(
            [
                _curve(run, checkpoints)
                for run in runs
                if (run["workload"], run["method"]) == (name, method)
            ]
        )
        for name in names
        for method in methods
    }
    rows = []
    for (name, method), curve in curves.items():
        mine = [run for run in runs if (run["workload"], run["method"]) == (name, method)]
        new = sum(run["new"] for run in mine) / sum(len(run["latencies"]) for run in mine)
        poor = np.mean(
            [(x or np.inf) > 10 * fastest[name] for run in mine for x in run["latencies"][:_FIRST]]
        )
        quality = [f"{np.mean(fastest[name] / curve[:, i]):.3f}" for i in range(len(checkpoints))]
        rows.append(
            [name, method, *quality, f"{curve[:, -1].min() * 1e3:.3g}", f"{poor:.0%}", f"{new:.0%}"]
        )
    columns = [
        *(f"@{n}" for n in checkpoints),
        "best (ms)",
        f"of the first {_FIRST}, failed or over 10 times slower than the best",
        "new",
    ]
    qualities = markdown.table(["workload", "method", *columns], rows)
    return qualities, _speedups(curves, names, methods, checkpoints)


def _curve(run: dict[str, Any], checkpoints: Sequence[int]) -> list[float]:
    """The best latency after each number of trials."""
    latencies = [np.inf if latency is None else latency for latency in run["latencies"]]
    return [min(latencies[:n]) for n in checkpoints]


def _speedups(
    curves: dict[tuple[str, str], Any],
    names: Sequence[str],
    methods: Sequence[str],
    checkpoints: Sequence[int],
) -> str:
    """Over the first method, with 95% intervals over seeds."""
    rows = []
    for method in methods[1:]:
        for i, n in enumerate(checkpoints):
            ratios = [curves[name, methods[0]][:, i] / curves[name, method][:, i] for name in names]
            whole = "{:.3f} ({:.3f} to {:.3f})".format(*geometric_mean_interval(ratios))
            rows.append([method, n, whole, *(f"{gmean(each):.2f}" for each in ratios)])
    return markdown.table(["method", "trials", f"over {methods[0]} (95%)", *names], rows)


if __name__ == "__main__":
    main()
