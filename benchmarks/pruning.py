"""What pruning saves: the same trials in the same order, run with and without it.

    python -m benchmarks.pruning                             # AlexNet and ResNet-18, 200 trials each, 10 minutes on two cores

A network is tuned, and everything in its log built again. Two runners, which differ in ``pruning`` only, then run every trial one
right after the other, each in its own process. Printed are the seconds that they ran, and how much slower the best of each task
by the pruning runner is than the best by the other, both as measured by the other.
"""

import argparse
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
import tvm
from tvm.autotvm import record

from autotvm_opevo.autotvm import LocalRunner, tune_network, workloads
from autotvm_opevo.autotvm.extraction import extract
from autotvm_opevo.autotvm.folding import fold
from autotvm_opevo.autotvm.log import seconds, workload_key
from autotvm_opevo.autotvm.measure_option import default_measure_option


def tuned(name, target, options):
    """The trials of a tuned network, in the order of its log."""
    log = options.out / f"{name}.json"
    log.unlink(missing_ok=True)
    mod, params = workloads.network(name)
    tune_network(mod, params, target, log, trials=options.trials, seed=options.seed, evaluate=False)
    tasks = {workload_key(task.target, task): task for task in extract(fold(mod, params), target).tasks}
    trials = [measured for measured, _ in record.load_from_file(str(log))]
    return [measured._replace(task=tasks[workload_key(measured.target, measured.task)]) for measured in trials]


def runners(target):
    """The default runner, and one without pruning."""
    default = default_measure_option(target)["runner"]
    effort = {name: getattr(default, name) for name in ("number", "repeat", "min_repeat_ms", "cooldown_interval")}
    return [LocalRunner(default.timeout, **effort, pruning=pruning) for pruning in (default.pruning, None)]


def compare(trials, target):
    """Seconds that both runners ran, and their results in seconds, both of shape (2, trials)."""
    builder, both = default_measure_option(target)["builder"], runners(target)
    spent, found = np.zeros((2, len(trials))), np.full((2, len(trials)), np.inf)
    try:
        for i, measured in enumerate(trials):
            builder.set_task(measured.task, {})
            built = builder.build([measured])
            for k in (0, 1) if i % 2 else (1, 0):
                start = time.perf_counter()
                found[k, i] = seconds(both[k].run([measured], built)[0])
                spent[k, i] = time.perf_counter() - start
    finally:
        for owner in (builder, *both):
            owner.close()
    return spent, found


def regrets(trials, found):
    """Of each task, the latency of the best by the first runner divided by that of the best by the second, both by the second."""
    groups = defaultdict(list)
    for i, measured in enumerate(trials):
        groups[workload_key(measured.target, measured.task)].append(i)
    pruned, whole = found
    return [
        whole[min(group, key=pruned.__getitem__)] / whole[group].min() for group in groups.values() if whole[group].min() < np.inf
    ]


def main():
    parser = argparse.ArgumentParser(description="What pruning saves, and whether it changes what is best.")
    parser.add_argument("--networks", nargs="+", default=["alexnet", "resnet-18"], choices=sorted(workloads.NETWORKS))
    parser.add_argument("--target", default="llvm -mcpu=core-avx2")
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("tuned/pruning"), help="folder for the logs")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    target = tvm.target.Target(options.target)
    for name in options.networks:
        trials = tuned(name, target, options)
        spent, found = compare(trials, target)
        ratios = np.array(regrets(trials, found))
        pruned, whole = spent.sum(axis=1)
        print(f"{name}: {len(trials)} trials, {whole:.1f} s without pruning, {pruned:.1f} s with it: {pruned / whole:.2f}")
        same, mean, worst = (ratios == 1).sum(), ratios.mean(), ratios.max()
        print(f"the same best in {same} of {len(ratios)} tasks; regret mean {mean:.3f}, worst {worst:.3f}", flush=True)


if __name__ == "__main__":
    main()
