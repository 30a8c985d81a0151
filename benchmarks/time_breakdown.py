"""Measure where the time of tuning a network goes.

    python -m benchmarks.time_breakdown                      # AlexNet and ResNet-18, 200 trials each, 5 minutes on two cores

*Starting* is what passes until the first build: extracting tasks, importing TVM in the workers. Then a trial is *running* alone
on this machine's CPU, or the search is *searching* alone, or they wait for *building*; *confirming* times the best trials again.
Reports show the same of any log of `tune_network`. The table has each task's trials, builds that took too long, and the time of
its builds, on one core, and runs.
"""

import argparse
from collections import Counter, defaultdict
from pathlib import Path

import tvm
from tvm.autotvm import record
from tvm.autotvm.measure import MeasureErrorNo

from autotvm_opevo.autotvm import tune_network, workloads
from autotvm_opevo.tuning.naming import task_name


def by_task(log):
    """Trials, builds that took too long, and seconds of each task, the longest first."""
    tasks = defaultdict(Counter)
    for measured, result in record.load_from_file(str(log)):
        late = result.error_no == MeasureErrorNo.BUILD_TIMEOUT
        name = task_name(measured.task.name, measured.task.args)
        tasks[name].update({"trials": 1, "late": int(late), "seconds": result.all_cost})
    return sorted(tasks.items(), key=lambda item: -item[1]["seconds"])


def main():
    parser = argparse.ArgumentParser(description="Measure where the time of tuning a network goes.")
    parser.add_argument("--networks", nargs="+", default=["alexnet", "resnet-18"], choices=sorted(workloads.NETWORKS))
    parser.add_argument("--target", default="llvm -mcpu=core-avx2")
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("tuned/time"), help="folder for the logs")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    target = tvm.target.Target(options.target)
    for name in options.networks:
        log = options.out / f"{name}.json"
        log.unlink(missing_ok=True)
        result = tune_network(*workloads.network(name), target, log, options.trials, seed=options.seed, evaluate=False)
        print(f"{result}\n\n{name}: {result.seconds:.0f} s")
        for phase, seconds in sorted(result.phases.items(), key=lambda item: -item[1]):
            print(f"  {phase:<12}{seconds:>8.1f} s{seconds / result.seconds:>7.0%}")
        print(f"  {'task':<56}{'trials':>7}{'too late':>10}{'seconds':>9}")
        for task, counts in by_task(log):
            print(f"  {task[:55]:<56}{counts['trials']:>7}{counts['late']:>10}{counts['seconds']:>9.1f}")


if __name__ == "__main__":
    main()
