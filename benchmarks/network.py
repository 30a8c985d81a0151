"""What a shared budget brings to whole networks.

    python -m benchmarks.network                        # AlexNet and ResNet-18, an hour on two cores
    python -m benchmarks.network --networks mobilenet --trials 200 --repetitions 5

Every network is tuned with the same trials by three pairs of a tuner and an allocation, several times, in turn. What each found
is compiled, and all of it and the untuned network are then timed in turn, in one process. A run that was stopped goes on: its
logs are in the folder that ``--out`` names.
"""

import argparse
import time
from pathlib import Path

import numpy as np
import tvm
from tvm import autotvm

from autotvm_opevo.autotvm import OpEvoTuner, tune_network, workloads
from autotvm_opevo.autotvm.evaluation import build, random_inputs, time_interleaved
from autotvm_opevo.autotvm.measurer import default_measure_option

RIVALS = {
    "equal + XGBTuner": ("equal", autotvm.tuner.XGBTuner),
    "equal + OpEvoTuner": ("equal", OpEvoTuner),
    "gradient + OpEvoTuner": ("gradient", OpEvoTuner),
}


def tune_all(name, target, options):
    """The best files and the seconds of tuning of each rival, by repetition."""
    mod, params = workloads.network(name)
    found = {rival: [] for rival in RIVALS}
    rivals = list(RIVALS.items())
    for repetition in range(options.repetitions):
        first = repetition % len(rivals)  # nobody is always first
        for rival, (allocation, tuner) in rivals[first:] + rivals[:first]:
            log = options.out / f"{name}-{rival.replace(' ', '')}-{options.trials}-{repetition}.json"
            seconds = log.with_suffix(".seconds")  # that its tuning took, when it was not stopped
            start = time.perf_counter()
            report = tune_network(
                mod,
                params,
                target,
                log,
                trials=options.trials,
                measure_option=default_measure_option(target, timeout=10),
                tuner=tuner,
                task_scheduler=allocation,
                seed=repetition,
                evaluate=False,
            )
            if report.measured == options.trials:
                seconds.write_text(str(time.perf_counter() - start))
            took = float(seconds.read_text()) if seconds.exists() else float("nan")
            print(f"{name} {rival} {repetition}: {report.latency * 1e3:.2f} ms estimated, {took:.0f} s", flush=True)
            found[rival].append((report.best_file, took))
    return found


def time_all(name, target, found):
    """Milliseconds of one run: of the untuned network, and of every repetition of each rival; their outputs agree."""
    mod, params = workloads.network(name)
    files = [file for runs in found.values() for file, _ in runs]
    libraries = [build(mod, params, target), *(build(mod, params, target, file) for file in files)]
    outputs, latencies = time_interleaved(libraries, random_inputs(mod, params), target, autotvm.LocalRunner())
    for output in outputs[1:]:
        np.testing.assert_allclose(output[0], outputs[0][0], rtol=1e-3, atol=1e-4)
    medians = iter(1e3 * np.median(latencies, axis=1))
    untuned = next(medians)
    return untuned, {rival: np.array([next(medians) for _ in runs]) for rival, runs in found.items()}


def main():
    parser = argparse.ArgumentParser(description="Tune whole networks with one budget, by three ways to spend it.")
    parser.add_argument("--networks", nargs="+", default=["alexnet", "resnet-18"], choices=sorted(workloads.NETWORKS))
    parser.add_argument("--target", default="llvm -mcpu=core-avx2")
    parser.add_argument("--trials", type=int, default=96, help="for one network, all its tasks (default: 96)")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("tuned/network"), help="where the logs are")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    target = tvm.target.Target(options.target)

    lines = []
    for name in options.networks:
        found = tune_all(name, target, options)
        untuned, latencies = time_all(name, target, found)
        lines.append(f"{name:<12}{'untuned':<24}{untuned:>10.2f}")
        for rival, milliseconds in latencies.items():
            seconds = np.array([took for _, took in found[rival]])
            spread = f"({milliseconds.min():.2f} to {milliseconds.max():.2f})"
            lines.append(
                f"{name:<12}{rival:<24}{np.median(milliseconds):>10.2f}  {spread:<20}{untuned / np.median(milliseconds):>9.2f}"
                f"{np.median(seconds):>12.0f}"
            )
    print(f"\n{options.trials} trials a network, {options.repetitions} repetitions, {target}")
    print(f"{'network':<12}{'':<24}{'median ms':>10}  {'(least to most)':<20}{'x untuned':>9}{'s of tuning':>12}")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
