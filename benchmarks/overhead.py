"""The tuners' own cost, on the search spaces of the paper's MM1, C1 and C2.

    python -m benchmarks.overhead            # or: make bench-overhead

Measurements are made up, in batches of 8, so the milliseconds are the tuner's own: ``has_next``,
``next_batch`` and ``update``. Every tuner has its defaults. The CUDA templates need no GPU, as
nothing is built; XGBTuner lowers the configurations that its model scores, which is part of its
cost. Absolute times are this machine's: look at the ratios.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from tvm.autotvm.measure import MeasureErrorNo, MeasureInput, MeasureResult

from benchmarks import markdown, operators, tuners

SPACES, TARGET = ("MM1", "C1", "C2"), "cuda -arch=sm_70"
TUNERS = ("OpEvo", "OpEvo-published", "Random", "GA", "XGB")
# Of the comparison of tuners; how often each runs; and configurations in a batch.
TRIALS, REPEAT, BATCH = 128, 3, 8


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the tuners' own time per trial.")
    parser.add_argument(
        "--gp", action="store_true", help="only the Gaussian-process search: a minute"
    )
    options = parser.parse_args()
    tasks = {name: operators.task(name, TARGET) for name in SPACES}
    if not options.gp:
        compare(tasks)
    gaussian_process(tasks)


def compare(tasks: dict[str, Any]) -> None:
    rows = []
    for name, task in tasks.items():
        runs: dict[str, list[float]] = {tuner: [] for tuner in TUNERS}
        for i in range(REPEAT):
            for tuner in TUNERS:
                if tuner != "XGB" or i == 0:
                    runs[tuner].append(milliseconds(tuners.make(tuner, task, i), task, TRIALS))
        rows.append([name, *(f"{np.median(costs):.3f}" for costs in runs.values())])
    print(
        f"Milliseconds a trial, mean over {TRIALS} trials, median of {REPEAT} interleaved runs "
        f"(XGB: one run)\n\n{markdown.table(['space', *TUNERS], rows)}\n",
        flush=True,
    )


def gaussian_process(tasks: dict[str, Any]) -> None:
    """Over 512 trials, and from 2,000 results on."""
    rows = []
    for name, task in tasks.items():
        runs = [
            (
                milliseconds(tuners.make("OpEvo", task, 0), task, 512),
                milliseconds(_tuner_with(task, 2_000), task, 64),
            )
            for _ in range(REPEAT)
        ]
        rows.append([name, *(f"{value:.2f}" for value in np.median(runs, axis=0))])
    print(
        f"OpEvo, a fifth of the trials failing: milliseconds a trial, median of {REPEAT} runs\n\n"
        f"{markdown.table(['space', '512 trials', 'after 2,000'], rows)}"
    )


def _tuner_with(task: Any, results: int) -> Any:
    """OpEvo with results of so many random configurations."""
    tuner = tuners.make("OpEvo", task, 0)
    numbers = np.random.default_rng(0).choice(len(task.config_space), results, replace=False)
    tuner.update(*made_up(task, [task.config_space.get(int(number)) for number in numbers]))
    return tuner


def milliseconds(tuner: Any, task: Any, trials: int) -> float:
    """The tuner's own, a trial."""
    own = tuners.Stopwatch(tuner)
    for _ in range(trials // BATCH):
        tuner.has_next()
        tuner.update(*made_up(task, tuner.next_batch(BATCH)))
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


if __name__ == "__main__":
    main()
