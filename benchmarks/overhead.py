"""What the tuners themselves cost, on the search spaces of the paper's MM1, C1 and C2.

    python -m benchmarks.overhead            # or: make bench-overhead

Measurement is replaced by a constant, in batches of 8, so that the seconds are the tuner's alone: ``has_next``,
``next_batch`` and ``update``. Every tuner has its defaults. The CUDA templates need no GPU as nothing is built; XGBTuner lowers
the configurations that its model looks at, which is part of its cost. Absolute times are this machine's: look at the ratios.
"""

from __future__ import annotations

import argparse
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from tqdm import tqdm
from tvm import autotvm, te, topi  # noqa: F401  topi registers the templates
from tvm.autotvm.measure import MeasureErrorNo, MeasureInput, MeasureResult

from autotvm_opevo import OpEvoTuner

BATCH = 8
GROWTH = (100, 1_000, 10_000)


def dense(n: int, k: int, m: int) -> Any:
    tensors = te.placeholder((n, k)), te.placeholder((m, k))
    return autotvm.task.create("dense_large_batch.gpu", args=(*tensors, None, "float32"), target="cuda -arch=sm_70")


def convolution(image: tuple[int, ...], kernel: tuple[int, ...], stride: int, padding: int) -> Any:
    tensors = te.placeholder(image), te.placeholder(kernel)
    arguments = (*tensors, (stride, stride), (padding, padding), (1, 1), "float32")
    return autotvm.task.create("conv2d_nchw.cuda", args=arguments, target="cuda -arch=sm_70")


SPACES: dict[str, Callable[[], Any]] = {
    "MM1": lambda: dense(512, 1024, 1024),
    "C1": lambda: convolution((512, 3, 227, 227), (64, 3, 11, 11), 4, 0),
    "C2": lambda: convolution((512, 64, 27, 27), (192, 64, 5, 5), 1, 2),
}
TUNERS: dict[str, Callable[[Any], Any]] = {
    "OpEvo": lambda task: OpEvoTuner(task, seed=0),
    "Random": autotvm.tuner.RandomTuner,
    "GA": autotvm.tuner.GATuner,
    "XGB": autotvm.tuner.XGBTuner,
}


def constant(task: Any, configs: list[Any]) -> tuple[list[MeasureInput], list[MeasureResult]]:
    """One millisecond for every configuration."""
    inputs = [MeasureInput(task.target, task, config) for config in configs]
    return inputs, [MeasureResult((1e-3,), 0, 0.0, 0.0) for _ in configs]


def seconds_until(tuner: Any, task: Any, milestones: tuple[int, ...]) -> list[float]:
    """The tuner's own seconds until each of these numbers of trials was reached."""
    reached, own, trials = [], 0.0, 0
    with tqdm(total=milestones[-1], desc=type(tuner).__name__, leave=False, disable=not sys.stderr.isatty()) as bar:
        for milestone in milestones:
            while trials < milestone:
                start = time.perf_counter()
                tuner.has_next()
                configs = tuner.next_batch(BATCH)
                own += time.perf_counter() - start
                inputs, results = constant(task, configs)
                start = time.perf_counter()
                tuner.update(inputs, results)
                own += time.perf_counter() - start
                trials += len(configs)
                bar.update(len(configs))
            reached.append(own)
    return reached


def bytes_per_trial(task: Any, trials: int) -> float:
    """How much memory OpEvo keeps for each trial, the configurations that the caller keeps left out."""
    tuner = TUNERS["OpEvo"](task)
    tracemalloc.start()
    try:
        seconds_until(tuner, task, (trials,))
        return tracemalloc.get_traced_memory()[0] / trials
    finally:
        tracemalloc.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description="What the tuners themselves cost.")
    parser.add_argument("--trials", type=int, default=128, help="trials of the comparison (default: 128)")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each tuner, in turn (default: 3; XGB runs once)")
    parser.add_argument("--surrogate", action="store_true", help="what the surrogate costs, and nothing else: a minute")
    options = parser.parse_args()

    tasks = {name: make() for name, make in SPACES.items()}
    if not options.surrogate:
        compare(tasks, options.trials, options.repeat)
        grow(tasks)
    surrogate(tasks, options.repeat)


def compare(tasks: dict[str, Any], trials: int, repeat: int) -> None:
    rivals = list(TUNERS)[1:]
    print(f"Milliseconds a trial, mean over {trials} trials, median of {repeat} runs in turn (XGB: one run)")
    print(row("space", TUNERS, 10) + row("", [f"{name}/OpEvo" for name in rivals], 14))
    for name, task in tasks.items():
        runs: dict[str, list[float]] = {tuner: [] for tuner in TUNERS}
        for i in range(repeat):
            for tuner, make in TUNERS.items():
                if tuner != "XGB" or i == 0:
                    runs[tuner] += seconds_until(make(task), task, (trials,))
        cost = {tuner: 1e3 * float(np.median(seconds)) / trials for tuner, seconds in runs.items()}
        ratios = [f"{cost[tuner] / cost['OpEvo']:.2f}" for tuner in rivals]
        print(row(name, [f"{ms:.3f}" for ms in cost.values()], 10) + row("", ratios, 14), flush=True)


def grow(tasks: dict[str, Any]) -> None:
    stretches = [f"{a:,}-{b:,}" for a, b in zip((0, *GROWTH), GROWTH)]
    print("\nOpEvo's growth: milliseconds a trial on each stretch of trials, and bytes kept a trial at its end")
    print(row("space", stretches, 14) + row("", [f"at {n:,}" for n in GROWTH[1:]], 12))
    for name, task in tasks.items():
        seconds = np.diff(seconds_until(TUNERS["OpEvo"](task), task, GROWTH), prepend=0.0)
        times = [f"{1e3 * s / n:.3f}" for s, n in zip(seconds, np.diff(GROWTH, prepend=0))]
        memory = [f"{bytes_per_trial(task, n):.0f}" for n in GROWTH[1:]]
        print(row(name, times, 14) + row("", memory, 12), flush=True)


def surrogate(tasks: dict[str, Any], repeat: int) -> None:
    print(f"\nOpEvo with a surrogate, a fifth of the trials failing: milliseconds a trial, median of {repeat} runs")
    heads = ["512 trials", "after 2,000", "batches of 64", "one 64 / one 8", "MB"]
    print(row("space", heads, 16))
    for name, task in tasks.items():
        runs = np.median([_screened(task) for _ in range(repeat)], axis=0)
        print(row(name, [f"{value:.2f}" for value in runs], 16), flush=True)


def _screened(task: Any) -> list[float]:
    """Milliseconds a trial over 512 in batches of 8, from 2,000 on, over 512 in batches of 64; 64 at once to 8; memory."""
    first = _milliseconds(_told(task, 0), task, 512, 8)
    many = _told(task, 2_000)
    late = _milliseconds(many, task, 64, 8)
    wide = _milliseconds(_told(task, 0), task, 512, 64)
    ratio = _milliseconds(_told(task, 512), task, 64, 64) * 64 / (_milliseconds(_told(task, 512), task, 8, 8) * 8)
    tracemalloc.start()
    try:
        _milliseconds(_told(task, 2_000), task, 64, 64)
        peak = tracemalloc.get_traced_memory()[1] / 1e6
    finally:
        tracemalloc.stop()
    return [first, late, wide, ratio, peak]


def _told(task: Any, results: int) -> OpEvoTuner:
    """A tuner that has so many results, of random configurations."""
    tuner = OpEvoTuner(task, surrogate="gp", seed=0)
    numbers = np.random.default_rng(0).choice(len(task.config_space), results, replace=False)
    tuner.update(*_made_up(task, [task.config_space.get(int(number)) for number in numbers]))
    return tuner


def _milliseconds(tuner: OpEvoTuner, task: Any, trials: int, batch: int) -> float:
    """The tuner's own, a trial."""
    own = 0.0
    for _ in range(trials // batch):
        start = time.perf_counter()
        tuner.has_next()
        configs = tuner.next_batch(batch)
        own += time.perf_counter() - start
        results = _made_up(task, configs)
        start = time.perf_counter()
        tuner.update(*results)
        own += time.perf_counter() - start
    return 1e3 * own / trials


def _made_up(task: Any, configs: list[Any]) -> tuple[list[MeasureInput], list[MeasureResult]]:
    """From 1 to 10 milliseconds, and every fifth a failure: to a model of the knobs, noise."""
    results = []
    for config in configs:
        draw = np.random.default_rng(config.index).random()
        cost = (1e-3 * 10**draw,) if config.index % 5 else (RuntimeError("made up"),)
        error = MeasureErrorNo.NO_ERROR if config.index % 5 else MeasureErrorNo.RUNTIME_DEVICE
        results.append(MeasureResult(cost, error, 0.0, 0.0))
    return [MeasureInput(task.target, task, config) for config in configs], results


def row(name: str, cells: Iterable[str], width: int) -> str:
    return (f"{name:<8}" if name else "") + "".join(f"{cell:>{width}}" for cell in cells)


if __name__ == "__main__":
    main()
