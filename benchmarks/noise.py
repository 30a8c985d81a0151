"""What is known of a measurement's noise: does the spread of its repeats tell its error, and does a yardstick tell the machine's?

    python -m benchmarks.noise                               # AlexNet's convolutions, 12 minutes on two cores

Random configurations are measured again and again in random order. The truth of each is the median over all measurements of it;
an error is the logarithm of a measurement divided by its truth. Then the same are measured while other processes come and go,
every 25 seconds, with the yardstick of `tune_network`, whose correction is compared with none.
"""

import argparse
import subprocess
import sys
import time

import numpy as np
import tvm
from scipy.stats import spearmanr
from tvm.autotvm.measure import MeasureErrorNo, MeasureInput

from autotvm_opevo.autotvm import LocalRunner, workloads
from autotvm_opevo.autotvm.extraction import extract
from autotvm_opevo.autotvm.finalists import Finalists
from autotvm_opevo.autotvm.folding import fold
from autotvm_opevo.autotvm.measure_option import default_measure_option
from autotvm_opevo.tuning.drift import Drift

_LOAD_SECONDS = 25


def trials(name, target, each, rng):
    """Random configurations of a network's convolutions, built; those that fail are left out."""
    mod, params = workloads.network(name)
    builder, kept, found = default_measure_option(target)["builder"], Finalists(), []
    for task in extract(fold(mod, params), target).tasks:
        if "conv2d" not in task.name:
            continue
        numbers = rng.choice(len(task.config_space), min(each, len(task.config_space)), replace=False)
        inputs = [MeasureInput(target, task, task.config_space.get(int(number))) for number in numbers]
        builder.set_task(task, {})
        builds = builder.build(inputs)
        found += [
            (one, build._replace(filename=kept.copy(build.filename)))
            for one, build in zip(inputs, builds)
            if hasattr(build, "filename")
        ]
    builder.close()
    return found, kept


def measure(runner, trial):
    """Seconds of each repeat, NaN after a failure, and the timestamp."""
    (result,) = runner.run([trial[0]], [trial[1]])
    failed = result.error_no != MeasureErrorNo.NO_ERROR
    return (np.nan,) * runner.repeat if failed else result.costs, result.timestamp


def spread_and_error(runner, built, rounds, rng):
    """Measure everything in rounds, each in random order; print how both are related and return the truths."""
    costs = np.full((rounds, len(built), runner.repeat), np.nan)
    for i in range(rounds):
        runner.restart()
        for j in rng.permutation(len(built)):
            costs[i, j] = measure(runner, built[j])[0]
    means = costs.mean(axis=2)
    truth = np.nanmedian(means, axis=0)
    known = np.isfinite(means)
    error, spread = np.abs(np.log(means / truth))[known], np.abs(np.log(costs[..., 0] / costs[..., 1]))[known]
    print(f"{known.sum()} measurements: error median {np.median(error):.1%}, 90% quantile {np.quantile(error, 0.9):.1%}")
    print(f"spread of two repeats and error: Spearman's rank correlation {spearmanr(error, spread)[0]:.2f}")
    large, apart = error > 0.1, spread > 0.05
    print(f"errors above 10%: {large.sum()}; of these, repeats differ by more than 5% in {(large & apart).sum()}")
    print(f"of all, repeats differ by more than 5% in {apart.mean():.0%}")
    return truth


def under_load(runner, built, truth, seconds, processes, rng):
    """Measure while processes come and go; print errors with and without correction."""
    runner.drift = drift = Drift()
    end = time.monotonic() + _LOAD_SECONDS  # at first nothing else runs
    while time.monotonic() < end:
        measure(runner, built[0])
    rows, hogs, start = [], [], time.monotonic()
    try:
        while time.monotonic() < start + seconds:
            loaded = (time.monotonic() - start) // _LOAD_SECONDS % 2 == 1
            while len(hogs) < processes and loaded:
                hogs.append(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
            while hogs and not loaded:
                hogs.pop().kill()
            j = int(rng.integers(len(built)))
            costs, moment = measure(runner, built[j])
            rows.append((np.log(np.mean(costs) / truth[j]), loaded, drift.factor(moment)))
    finally:
        for hog in hogs:
            hog.kill()
    errors, loaded, factors = (np.array(column) for column in zip(*(row for row in rows if np.isfinite(row[0]))))
    for name, which in (("alone", ~loaded), (f"beside {processes} processes", loaded)):
        for kind, values in (("as measured", errors[which]), ("corrected", (errors - np.log(factors))[which])):
            middle = np.median(np.abs(values))
            print(f"{name}, {kind}: error mean {values.mean():+.1%}, median {middle:.1%} ({len(values)} trials)")


def main():
    parser = argparse.ArgumentParser(description="What is known of a measurement's noise.")
    parser.add_argument("--network", default="alexnet", choices=sorted(workloads.NETWORKS))
    parser.add_argument("--target", default="llvm -mcpu=core-avx2")
    parser.add_argument("--configurations", type=int, default=16, help="of each convolution (default: 16)")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=200, help="beside other processes (default: 200)")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    built, kept = trials(options.network, tvm.target.Target(options.target), options.configurations, rng)
    runner = LocalRunner(20, number=1, repeat=2, min_repeat_ms=50, cooldown_interval=0)
    try:
        truth = spread_and_error(runner, built, options.rounds, rng)
        under_load(runner, built, truth, options.seconds, options.processes, rng)
    finally:
        runner.close()
        kept.clear()


if __name__ == "__main__":
    main()
