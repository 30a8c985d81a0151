"""Compare tuners and task schedulers on whole networks.

    python -m benchmarks.network  # AlexNet and ResNet-18, over an hour on two cores
    python -m benchmarks.network --networks alexnet --trials 200 --methods tutorial gradient+opevo

Every network is tuned several times with the same number of trials by each method, in turn.
``tutorial`` is XGBTuner as TVM's tutorial tune_relay_x86.py has it, with its builder and runner,
but not its thousands of trials per task; the others measure with this package's. Without transfer,
tasks learn neither from each other nor from the bundled tuning records. The tuned networks and the
untuned one are then compiled and timed interleaved, in rounds with new memory. A stopped benchmark
resumes from the logs in ``--out``.
"""

import argparse
import hashlib
import time
from functools import partial
from pathlib import Path

import numpy as np
import tvm
from tvm import autotvm

from autotvm_opevo.autotvm import OpEvoTuner, default_measure_option, tune_network
from autotvm_opevo.autotvm.evaluation import Instance, build, random_inputs
from autotvm_opevo.autotvm.folding import fold
from autotvm_opevo.networks import relay as workloads
from benchmarks import markdown


class TvmRunner(autotvm.LocalRunner):
    """AutoTVM's, for which `tune_network` would take this package's; a user's own stays."""


def tutorial_measure_option(target):
    runner = TvmRunner(number=1, repeat=10, min_repeat_ms=0, enable_cpu_cache_flush=True)
    return autotvm.measure_option(builder=autotvm.LocalBuilder(), runner=runner)


# How often each network is timed in a round.
_REPEATS = 9
# Task scheduler, tuner, and what makes the measure option.
METHODS = {
    "tutorial": (
        "equal",
        partial(autotvm.tuner.XGBTuner, loss_type="rank"),
        tutorial_measure_option,
    ),
    "equal+xgb": ("equal", autotvm.tuner.XGBTuner, default_measure_option),
    "equal+opevo": ("equal", OpEvoTuner, default_measure_option),
    "gradient+opevo": ("gradient", OpEvoTuner, default_measure_option),
    "gradient+opevo, no transfer": ("gradient", OpEvoTuner, default_measure_option),
}


def digest(target):
    """A few characters that tell apart logs of other targets."""
    return hashlib.sha256(str(target).encode()).hexdigest()[:8]


def tune_all(name, target, options):
    """Tune a network with each method; return each repetition's file of best records and its
    seconds of tuning.
    """
    mod, params = workloads.network(name)
    tuned = {method: [] for method in options.methods}
    about = digest(target)
    methods = [(method, METHODS[method]) for method in options.methods]
    for repetition in range(options.repetitions):
        first = repetition % len(methods)  # each method is first in turn
        for method, (task_scheduler, tuner, measure_option) in methods[first:] + methods[:first]:
            log = options.out / f"{name}-{method}-{options.trials}-{about}-{repetition}.json"
            seconds = log.with_suffix(".seconds")  # of tuning, unknown for a run that was stopped
            start = time.perf_counter()
            result = tune_network(
                mod,
                params,
                target,
                log,
                trials=options.trials,
                measure_option=measure_option(target),
                tuner=tuner,
                task_scheduler=task_scheduler,
                seed=repetition,
                evaluate=False,
                transfer="no transfer" not in method,
            )
            if result.measured == options.trials:
                seconds.write_text(str(time.perf_counter() - start))
            took = float(seconds.read_text()) if seconds.exists() else float("nan")
            print(
                f"{name} {method} {repetition}: {result.latency * 1e3:.2f} ms estimated, "
                f"{took:.0f} s",
                flush=True,
            )
            tuned[method].append((result.best_file, took))
    return tuned


def time_all(name, target, files, rounds):
    """Seconds of each network in each round, of which each has newly allocated weights; all outputs
    must agree.
    """
    mod, params = workloads.network(name)
    mod = fold(mod, params)
    libraries = [build(mod, target, Path(file) if file else None) for file in files]
    medians = []
    for _ in range(rounds):
        instances = [
            Instance(library, tvm.device(target.kind.name), random_inputs(mod))
            for library in libraries
        ]
        expected, *others = [instance.outputs()[0] for instance in instances]
        for output in others:
            np.testing.assert_allclose(output, expected, rtol=1e-3, atol=1e-4)
        in_turn = [[instance.seconds() for instance in instances] for _ in range(_REPEATS)]
        medians.append(np.median(in_turn, axis=0))
    return np.array(medians).T


def main():
    parser = argparse.ArgumentParser(
        description="Compare tuners and task schedulers on whole networks."
    )
    parser.add_argument(
        "--networks",
        nargs="+",
        default=["alexnet", "resnet-18"],
        choices=sorted(workloads.NETWORKS),
    )
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--target", default="llvm -mcpu=core-avx2")
    parser.add_argument(
        "--trials", type=int, default=96, help="per network, over all its tasks (default: 96)"
    )
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=5, help="of the final timing (default: 5)")
    parser.add_argument(
        "--out", type=Path, default=Path("tuned/network"), help="folder for the logs"
    )
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    target = tvm.target.Target(options.target)

    rows = []
    for name in options.networks:
        tuned = tune_all(name, target, options)
        files = [None, *(file for runs in tuned.values() for file, _ in runs)]
        untuned, *each = 1e3 * np.median(time_all(name, target, files, options.rounds), axis=1)
        medians = iter(each)
        rows.append([name, "untuned", f"{untuned:.2f}", "", ""])
        for method, runs in tuned.items():
            milliseconds = np.array([next(medians) for _ in runs])
            spread = f"({milliseconds.min():.2f} to {milliseconds.max():.2f})"
            latency, seconds = np.median(milliseconds), np.median([took for _, took in runs])
            speedup = f"{untuned / latency:.2f}"
            rows.append([name, method, f"{latency:.2f} {spread}", speedup, f"{seconds:.0f}"])
    print(f"\n{options.trials} trials per network, {options.repetitions} repetitions, {target}\n")
    print(markdown.table(["network", "", "ms (min to max)", "speedup", "seconds of tuning"], rows))


if __name__ == "__main__":
    main()
