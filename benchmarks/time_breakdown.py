"""Measure where the time of tuning a network goes.

    python -m benchmarks.time_breakdown                      # AlexNet and ResNet-18, 200 trials each, 5 minutes on two cores

*Starting* is what passes until the first build: extracting tasks, importing TVM in the workers. Then the machine is either
*running* a trial, which it does alone, or *building* for other trials on all cores; *idle* is what is left of the cores' time,
while the search thinks, the log is written, or there are fewer builds than cores. *Confirming* times the best trials again.
"""

import argparse
import time
from collections import Counter, defaultdict
from pathlib import Path

import tvm
from tvm.autotvm.measure import MeasureErrorNo
from tvm.autotvm.measure.measure_methods import BuildResult

from autotvm_opevo.autotvm import tune_network, workloads
from autotvm_opevo.autotvm.measure_option import default_measure_option
from autotvm_opevo.tuning.naming import task_name


class Clock:
    """Seconds by phase, and by task and phase."""

    def __init__(self):
        self.start = time.perf_counter()
        self.first = None  # when the first build began
        self.phases = Counter()
        self.tasks = defaultdict(Counter)

    def add(self, phase, seconds, task=None):
        self.phases[phase] += seconds
        if task is not None:
            self.tasks[task_name(task.name, task.args)][phase] += seconds


def timed_option(target, clock):
    """The default builder and runner, with a clock."""
    option = default_measure_option(target)
    builder, runner = option["builder"], option["runner"]
    start, finish = builder.start, builder.finish

    def timed_start(measured):
        clock.first = clock.first or time.perf_counter()
        return start(measured)

    def timed_finish(build):
        result = finish(build)
        late = not isinstance(result, BuildResult) and result.error_no == MeasureErrorNo.BUILD_TIMEOUT
        seconds = result.time_cost if isinstance(result, BuildResult) else result.all_cost
        clock.add("building", seconds / builder.n_parallel, build.measured.task)
        clock.tasks[task_name(build.measured.task.name, build.measured.task.args)].update({"trials": 1, "timeouts": int(late)})
        return result

    def timed(phase, function):
        def call(*arguments):
            begin = time.perf_counter()
            try:
                return function(*arguments)
            finally:
                clock.add(phase, time.perf_counter() - begin, arguments[0][0].task if phase == "running" else None)

        return call

    builder.start, builder.finish = timed_start, timed_finish
    runner.run, runner.time_again = timed("running", runner.run), timed("confirming", runner.time_again)
    return option


def tune(name, target, trials, folder, seed=0):
    """Tune a network; return its clock and the result."""
    clock = Clock()
    mod, params = workloads.network(name)
    log = folder / f"{name}.json"
    log.unlink(missing_ok=True)
    result = tune_network(
        mod, params, target, log, trials=trials, measure_option=timed_option(target, clock), seed=seed, evaluate=False
    )
    total = time.perf_counter() - clock.start
    clock.phases["starting"] = clock.first - clock.start
    clock.phases["idle"] = total - sum(clock.phases[phase] for phase in ("starting", "building", "running", "confirming"))
    clock.phases["total"] = total
    return clock, result


def report(name, clock):
    print(f"\n{name}: {clock.phases['total']:.0f} s")
    for phase in ("starting", "building", "running", "confirming", "idle"):
        print(f"  {phase:<12}{clock.phases[phase]:>8.1f} s{clock.phases[phase] / clock.phases['total']:>7.0%}")
    print(f"  {'task':<56}{'trials':>7}{'timeouts':>10}{'building':>10}{'running':>9}")
    for task, seconds in sorted(clock.tasks.items(), key=lambda item: -item[1]["building"] - item[1]["running"]):
        print(
            f"  {task[:55]:<56}{seconds['trials']:>7}{seconds['timeouts']:>10}"
            f"{seconds['building']:>10.1f}{seconds['running']:>9.1f}"
        )


def main():
    parser = argparse.ArgumentParser(description="Measure where the time of tuning a network goes.")
    parser.add_argument("--networks", nargs="+", default=["alexnet", "resnet-18"], choices=sorted(workloads.NETWORKS))
    parser.add_argument("--target", default="llvm -mcpu=core-avx2")
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("tuned/time"), help="folder for the logs")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for name in options.networks:
        clock, result = tune(name, tvm.target.Target(options.target), options.trials, options.out, options.seed)
        print(result)
        report(name, clock)


if __name__ == "__main__":
    main()
