"""The tuners' own cost, on the search spaces of the paper's MM1, C1 and C2.

    python -m benchmarks.overhead            # or: make bench-overhead

Measurements are made up, in batches of 8, so the milliseconds are the tuner's own: ``has_next``,
``next_batch`` and ``update``. Every tuner has its defaults. The CUDA templates need no GPU, as
nothing is built; XGBTuner lowers the configurations that its model scores, which is part of its
cost. Absolute times are this machine's: look at the ratios.
"""

from __future__ import annotations

import argparse
import tracemalloc
from collections.abc import Iterable
from typing import Any

import numpy as np
from tvm.autotvm.measure import MeasureErrorNo, MeasureInput, MeasureResult

from benchmarks import operators, tuners

SPACES, TARGET = ("MM1", "C1", "C2"), "cuda -arch=sm_70"
TUNERS = ("OpEvo", "OpEvo-published", "Random", "GA", "XGB")


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the tuners' own time per trial.")
    parser.add_argument(
        "--trials", type=int, default=128, help="trials of the comparison (default: 128)"
    )
    parser.add_argument(
        "--repeat",
        type=int,
        default=3,
        help="runs of each tuner, interleaved (default: 3; XGB runs once)",
    )
    parser.add_argument(
        "--gp", action="store_true", help="only the Gaussian-process search: a minute"
    )
    options = parser.parse_args()
    tasks = {name: operators.task(name, TARGET) for name in SPACES}
    if not options.gp:
        compare(tasks, options.trials, options.repeat)
    gaussian_process(tasks, options.repeat)


def compare(tasks: dict[str, Any], trials: int, repeat: int) -> None:
    print(
        f"Milliseconds a trial, mean over {trials} trials, median of {repeat} interleaved runs "
        "(XGB: one run)"
    )
    print(row("space", TUNERS))
    for name, task in tasks.items():
        runs: dict[str, list[float]] = {tuner: [] for tuner in TUNERS}
        for i in range(repeat):
            for tuner in TUNERS:
                if tuner != "XGB" or i == 0:
                    runs[tuner].append(milliseconds(tuners.make(tuner, task, i), task, trials))
        print(row(name, [f"{np.median(costs):.3f}" for costs in runs.values()]), flush=True)


def gaussian_process(tasks: dict[str, Any], repeat: int) -> None:
    """Over 512 trials in batches of 8, from 2,000 results on, over 512 in batches of 64; 64 at once
    to 8; and the peak of memory.
    """
    print(f"\nOpEvo, a fifth of the trials failing: milliseconds a trial, median of {repeat} runs")
    print(row("space", ["512 trials", "after 2,000", "batches of 64", "one 64 / one 8", "MB"]))
    for name, task in tasks.items():
        runs = np.median([_costs(task) for _ in range(repeat)], axis=0)
        print(row(name, [f"{value:.2f}" for value in runs]), flush=True)


def _costs(task: Any) -> list[float]:
    first = milliseconds(_tuner_with(task, 0), task, 512)
    late = milliseconds(_tuner_with(task, 2_000), task, 64)
    wide = milliseconds(_tuner_with(task, 0), task, 512, 64)
    at_once, few = (milliseconds(_tuner_with(task, 512), task, n, n) * n for n in (64, 8))
    tracemalloc.start()
    try:
        milliseconds(_tuner_with(task, 2_000), task, 64, 64)
        peak = tracemalloc.get_traced_memory()[1] / 1e6
    finally:
        tracemalloc.stop()
    return [first, late, wide, at_once / few, peak]


def _tuner_with(task: Any, results: int) -> Any:
    """OpEvo with results of so many random configurations."""
    tuner = tuners.make("OpEvo", task, 0)
    numbers = np.random.default_rng(0).choice(len(task.config_space), results, replace=False)
    tuner.update(*made_up(task, [task.config_space.get(int(number)) for number in numbers]))
    return tuner


def milliseconds(tuner: Any, task: Any, trials: int, batch: int = 8) -> float:
    """The tuner's own, a trial."""
    own = tuners.Stopwatch(tuner)
    for _ in range(trials // batch):
        tuner.has_next()
        tuner.update(*made_up(task, tuner.next_batch(batch)))
    return 1e3 * own.seconds / trials


def made_up(task: Any, configs: list[Any]) -> tuple[list[MeasureInput], list[MeasureResult]]:
    """From 1 to 10 milliseconds, and every fifth a failure: to a model of the knobs, noise."""
    results = []
    for config in configs:
        draw = np.random.default_rng(config.index).random()
        cost = (1e-3 * 10**draw,) if config.index % 5 else (RuntimeError("made up"),)
        error = MeasureErrorNo.NO_ERROR if config.index % 5 else MeasureErrorNo.RUNTIME_DEVICE
        results.append(MeasureResult(cost, error, 0.0, 0.0))
    return [MeasureInput(task.target, task, config) for config in configs], results


def row(name: str, cells: Iterable[str]) -> str:
    return f"{name:<8}" + "".join(f"{cell:>17}" for cell in cells)


if __name__ == "__main__":
    main()
