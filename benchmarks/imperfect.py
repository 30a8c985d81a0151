"""What noisy results, and results that come one batch late, cost the search: OpEvo on recorded landscapes.

    python -m benchmarks.imperfect                           # six landscapes, 20 seeds, 10 minutes on two cores

Noise is as `benchmarks.noise` found it: every time is multiplied by a log-normal factor, and a few are much too long. Late
results are those of a pipeline, where a batch is proposed while the one before is measured. The score is that of a comparison:
the optimum's true time divided by the true time of the configuration that seems the best so far.
"""

import argparse
import os
from collections import deque
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
from tvm.autotvm.measure import MeasureInput

from autotvm_opevo import OpEvoTuner
from autotvm_opevo.autotvm.log import seconds
from benchmarks import replay
from benchmarks.landscape import FOLDER, load

BATCH = 8
# Relative standard deviation; share of the times that are too long, and how many times.
NOISE, OUTLIERS, RATIOS = 0.02, 0.04, (1.1, 1.6)
# Whether results are noisy, and how many batches late.
VARIANTS = {"exact": (False, 0), "noisy": (True, 0), "one batch late": (False, 1), "both": (True, 1)}
CHECKPOINTS = (16, 32, 64, 128)


def disturbed(result, rng):
    """A result with noise; failures stay as they are."""
    factor = np.exp(NOISE * rng.standard_normal()) * (rng.uniform(*RATIOS) if rng.random() < OUTLIERS else 1.0)
    return result if result.error_no else result._replace(costs=tuple(cost * factor for cost in result.costs))


def scores(variant, job, trials=CHECKPOINTS[-1]):
    """The score after each trial of a search on a landscape's file with a seed."""
    file, seed = job
    landscape = load(file)
    task, runner, rng = replay.task(landscape), replay.LookUp(landscape, BATCH), np.random.default_rng(seed)
    noisy, late = VARIANTS[variant]
    tuner, waiting, found = OpEvoTuner(task, seed=seed), deque(), []
    best = chosen = np.inf
    while len(found) < trials:
        waiting.append([MeasureInput(task.target, task, config) for config in tuner.next_batch(BATCH)])
        if len(waiting) <= late:
            continue
        inputs = waiting.popleft()
        exact = runner.run(inputs, [None] * len(inputs))
        results = [disturbed(result, rng) for result in exact] if noisy else exact
        for seen, true in zip(map(seconds, results), map(seconds, exact)):
            if seen < best:
                best, chosen = seen, true
            found.append(1e-3 * float(np.nanmin(landscape.time)) / chosen)
        tuner.update(inputs, results)
    return found[:trials]


def main():
    parser = argparse.ArgumentParser(description="What noisy and late results cost the search.")
    parser.add_argument("--landscapes", nargs="+", type=Path, default=sorted(FOLDER.glob("*.npz")))
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    jobs = [(file, seed) for file in options.landscapes for seed in range(options.seeds)]
    print(f"{'':<16}" + "".join(f"{f'@{trials}':>16}" for trials in CHECKPOINTS))
    with ProcessPoolExecutor(options.workers) as pool:
        for variant in VARIANTS:
            runs = np.array(list(pool.map(partial(scores, variant), jobs)))
            cells = "".join(f"{runs[:, t - 1].mean():>8.3f} ± {runs[:, t - 1].std():.3f}" for t in CHECKPOINTS)
            print(f"{variant:<16}{cells}", flush=True)


if __name__ == "__main__":
    main()
