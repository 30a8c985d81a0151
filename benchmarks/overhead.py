"""The tuners' own cost, on the search spaces of the paper's MM1, C1 and C2.

    python -m benchmarks.overhead            # or: make bench-overhead

Measurements are constants, in batches of 8, so the seconds are the tuner's own: ``has_next``,
``next_batch`` and ``update``. Every tuner has its defaults. The CUDA templates need no GPU, as
nothing is built; XGBTuner lowers the configurations that its model scores, which is part of its
cost. Absolute times are this machine's: look at the ratios.

On a busy machine, four processes keep the cores busy and the tuner sleeps between batches, as it
does while TVM builds and runs.
"""

from __future__ import annotations

import argparse
import os
import subprocess
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
BUSY_PROCESSES = 4
# Seconds between batches, in which TVM would build and run.
PAUSE = 0.1
GROWTH = (100, 1_000, 10_000)


def dense(n: int, k: int, m: int) -> Any:
    tensors = te.placeholder((n, k)), te.placeholder((m, k))
    return autotvm.task.create(
        "dense_large_batch.gpu", args=(*tensors, None, "float32"), target="cuda -arch=sm_70"
    )


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
    "OpEvo-published": lambda task: OpEvoTuner(task, surrogate=None, seed=0),
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
    with tqdm(
        total=milestones[-1],
        desc=type(tuner).__name__,
        leave=False,
        disable=not sys.stderr.isatty(),
    ) as bar:
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
    """Memory that published OpEvo keeps for each trial, without the configurations that the caller
    keeps.
    """
    tuner = TUNERS["OpEvo-published"](task)
    tracemalloc.start()
    try:
        seconds_until(tuner, task, (trials,))
        return tracemalloc.get_traced_memory()[0] / trials
    finally:
        tracemalloc.stop()


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
    parser.add_argument(
        "--busy",
        action="store_true",
        help="only the Gaussian-process search on a busy machine: two minutes",
    )
    parser.add_argument("--one", choices=list(SPACES), help=argparse.SUPPRESS)
    options = parser.parse_args()

    if options.one:
        print(*paused(SPACES[options.one]()))
        return
    tasks = {name: make() for name, make in SPACES.items()}
    if not options.gp and not options.busy:
        compare(tasks, options.trials, options.repeat)
        grow(tasks)
    if not options.busy:
        gaussian_process(tasks, options.repeat)
    if not options.gp:
        busy(tasks, options.repeat)


def compare(tasks: dict[str, Any], trials: int, repeat: int) -> None:
    others = list(TUNERS)[1:]
    print(
        f"Milliseconds a trial, mean over {trials} trials, median of {repeat} interleaved runs "
        "(XGB: one run)"
    )
    print(row("space", TUNERS, 17) + row("", [f"{name}/OpEvo" for name in others], 22))
    for name, task in tasks.items():
        runs: dict[str, list[float]] = {tuner: [] for tuner in TUNERS}
        for i in range(repeat):
            for tuner, make in TUNERS.items():
                if tuner != "XGB" or i == 0:
                    runs[tuner] += seconds_until(make(task), task, (trials,))
        cost = {tuner: 1e3 * float(np.median(seconds)) / trials for tuner, seconds in runs.items()}
        ratios = [f"{cost[tuner] / cost['OpEvo']:.2f}" for tuner in others]
        print(
            row(name, [f"{ms:.3f}" for ms in cost.values()], 17) + row("", ratios, 22), flush=True
        )


def grow(tasks: dict[str, Any]) -> None:
    stretches = [f"{a:,}-{b:,}" for a, b in zip((0, *GROWTH), GROWTH)]
    print(
        "\nGrowth of published OpEvo: milliseconds a trial by trial number, and bytes kept "
        "per trial"
    )
    print(row("space", stretches, 14) + row("", [f"at {n:,}" for n in GROWTH[1:]], 12))
    for name, task in tasks.items():
        seconds = np.diff(seconds_until(TUNERS["OpEvo-published"](task), task, GROWTH), prepend=0.0)
        times = [f"{1e3 * s / n:.3f}" for s, n in zip(seconds, np.diff(GROWTH, prepend=0))]
        memory = [f"{bytes_per_trial(task, n):.0f}" for n in GROWTH[1:]]
        print(row(name, times, 14) + row("", memory, 12), flush=True)


def gaussian_process(tasks: dict[str, Any], repeat: int) -> None:
    print(f"\nOpEvo, a fifth of the trials failing: milliseconds a trial, median of {repeat} runs")
    heads = ["512 trials", "after 2,000", "batches of 64", "one 64 / one 8", "MB"]
    print(row("space", heads, 16))
    for name, task in tasks.items():
        runs = np.median([_costs(task) for _ in range(repeat)], axis=0)
        print(row(name, [f"{value:.2f}" for value in runs], 16), flush=True)


def _costs(task: Any) -> list[float]:
    """Milliseconds a trial over 512 in batches of 8, from 2,000 on, over 512 in batches of 64; 64
    at once to 8; memory.
    """
    first = milliseconds(_tuner_with(task, 0), task, 512, 8)
    many = _tuner_with(task, 2_000)
    late = milliseconds(many, task, 64, 8)
    wide = milliseconds(_tuner_with(task, 0), task, 512, 64)
    ratio = (
        milliseconds(_tuner_with(task, 512), task, 64, 64)
        * 64
        / (milliseconds(_tuner_with(task, 512), task, 8, 8) * 8)
    )
    tracemalloc.start()
    try:
        milliseconds(_tuner_with(task, 2_000), task, 64, 64)
        peak = tracemalloc.get_traced_memory()[1] / 1e6
    finally:
        tracemalloc.stop()
    return [first, late, wide, ratio, peak]


def _tuner_with(task: Any, results: int) -> OpEvoTuner:
    """A tuner with results of so many random configurations."""
    tuner = OpEvoTuner(task, seed=0)
    numbers = np.random.default_rng(0).choice(len(task.config_space), results, replace=False)
    tuner.update(*made_up(task, [task.config_space.get(int(number)) for number in numbers]))
    return tuner


def milliseconds(tuner: OpEvoTuner, task: Any, trials: int, batch: int) -> float:
    """The tuner's own, a trial."""
    own = 0.0
    for _ in range(trials // batch):
        start = time.perf_counter()
        tuner.has_next()
        configs = tuner.next_batch(batch)
        own += time.perf_counter() - start
        results = made_up(task, configs)
        start = time.perf_counter()
        tuner.update(*results)
        own += time.perf_counter() - start
    return 1e3 * own / trials


def made_up(task: Any, configs: list[Any]) -> tuple[list[MeasureInput], list[MeasureResult]]:
    """From 1 to 10 milliseconds, and every fifth a failure: to a model of the knobs, noise."""
    results = []
    for config in configs:
        draw = np.random.default_rng(config.index).random()
        cost = (1e-3 * 10**draw,) if config.index % 5 else (RuntimeError("made up"),)
        error = MeasureErrorNo.NO_ERROR if config.index % 5 else MeasureErrorNo.RUNTIME_DEVICE
        results.append(MeasureResult(cost, error, 0.0, 0.0))
    return [MeasureInput(task.target, task, config) for config in configs], results


def busy(tasks: dict[str, Any], repeat: int) -> None:
    print(
        f"\nOpEvo beside {BUSY_PROCESSES} busy processes: milliseconds a trial, 128 trials, "
        f"median of {repeat} interleaved runs"
    )
    print(
        row(
            "space",
            [
                "idle, 1 thread",
                "idle",
                "busy",
                "busy / idle, 1",
                "CPU ms: idle, 1",
                "busy",
                "ratio",
            ],
            17,
        )
    )
    for name, task in tasks.items():
        runs = np.median(
            [[*_in_one_thread(name), *paused(task), *_while_busy(task)] for _ in range(repeat)],
            axis=0,
        )
        wall, cpu = runs[0::2], runs[1::2]
        cells = [*wall, wall[2] / wall[0], cpu[0], cpu[2], cpu[2] / cpu[0]]
        print(row(name, [f"{value:.2f}" for value in cells], 17), flush=True)


def paused(task: Any, trials: int = 128) -> tuple[float, float]:
    """The tuner's milliseconds a trial, by the wall and of its process, in batches with a pause
    between them.
    """
    tuner, wall, cpu = _tuner_with(task, 64), 0.0, 0.0
    for _ in range(trials // BATCH):
        time.sleep(PAUSE)
        start, cpu_start = time.perf_counter(), time.process_time()
        tuner.update(*made_up(task, tuner.next_batch(BATCH)))
        wall, cpu = wall + time.perf_counter() - start, cpu + time.process_time() - cpu_start
    return 1e3 * wall / trials, 1e3 * cpu / trials


def _in_one_thread(name: str) -> list[float]:
    """The same in a process of its own, all of whose libraries have one thread."""
    command = [sys.executable, "-m", "benchmarks.overhead", "--one", name]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True, timeout=600
    )
    return [float(text) for text in done.stdout.split()]


def _while_busy(task: Any) -> tuple[float, float]:
    others = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(BUSY_PROCESSES)
    ]
    try:
        return paused(task)
    finally:
        for other in others:
            other.kill()
            other.wait()


def row(name: str, cells: Iterable[str], width: int) -> str:
    return (f"{name:<8}" if name else "") + "".join(f"{cell:>{width}}" for cell in cells)


if __name__ == "__main__":
    main()
