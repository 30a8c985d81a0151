"""How much slower than the best of a task's finalists the chosen one is, with and without confirmation.

    python -m benchmarks.regret                              # AlexNet and ResNet-18, 12 minutes on two cores

Both networks are tuned with ``--trials`` trials. Then the finalists of each task are timed in ``--rounds`` new processes each, in
turn; the median of those is taken for the truth. The regret is the true latency of the choice divided by that of the truly best.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import tvm

from autotvm_opevo.autotvm import LocalRunner, tune_network, workloads
from autotvm_opevo.autotvm.log import parse, workload_key
from autotvm_opevo.autotvm.measure_option import default_measure_option
from autotvm_opevo.tuning.journal import Journal


class Runner(LocalRunner):
    """A runner that times all finalists thoroughly before it forgets them."""

    rounds = 0
    truth = None

    def run(self, measured, built):
        self.tasks = getattr(self, "tasks", {}) | {workload_key(one.target, one.task): one.task for one in measured}
        return super().run(measured, built)

    def close(self):
        if self.truth is None and self.tasks:
            self.truth = {key: self.time_thoroughly(self.finalists.of(task)) for key, task in self.tasks.items()}
        super().close()

    def time_thoroughly(self, finalists):
        """Each finalist, and its latencies in seconds."""
        rows = []
        for i in range(self.rounds):
            self.restart()
            order = np.roll(np.arange(len(finalists)), i)
            latencies = {position: self.time_again(finalists[position]) for position in order}
            rows.append([latencies[position] for position in range(len(finalists))])
        return list(zip(finalists, np.transpose(rows)))


def regrets(name, target, options):
    """Of each task with a choice: the regret without and with confirmation, and how uncertain the truth is."""
    mod, params = workloads.network(name)
    log = options.out / f"{name}.json"
    for file in (log, Path(f"{log}.journal")):
        file.unlink(missing_ok=True)
    option = default_measure_option(target)
    default = option["runner"]
    runner = Runner(
        default.timeout,
        number=default.number,
        repeat=default.repeat,
        min_repeat_ms=default.min_repeat_ms,
        cooldown_interval=0,
        pruning=default.pruning,
    )
    runner.rounds = options.rounds
    option["runner"] = runner
    tune_network(mod, params, target, log, trials=options.trials, measure_option=option, seed=options.seed, evaluate=False)
    confirmed = {}
    for one in Journal(f"{log}.journal").history.confirmed.values():
        measured, _ = parse(one.record)
        confirmed[workload_key(measured.target, measured.task)] = measured.config.index
    found = []
    for key, timed in runner.truth.items():
        if len(timed) < 2:
            continue
        truth = {finalist.measured.config.index: float(np.median(latencies)) for finalist, latencies in timed}
        error = max(float(np.std(latencies) / np.sqrt(len(latencies)) / np.median(latencies)) for _, latencies in timed)
        single = min(timed, key=lambda pair: pair[0].seconds)[0].measured.config.index
        best = min(truth.values())
        chosen = confirmed.get(key, single)
        found.append(
            {"network": name, "finalists": len(timed), "single": truth[single] / best, "confirmed": truth[chosen] / best}
            | {"error": error, "was confirmed": key in confirmed}
        )
    return found


def main():
    parser = argparse.ArgumentParser(description="Regret of the choice of the best trial, with and without confirmation.")
    parser.add_argument("--networks", nargs="+", default=["alexnet", "resnet-18"], choices=sorted(workloads.NETWORKS))
    parser.add_argument("--target", default="llvm -mcpu=core-avx2")
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("tuned/regret"), help="folder for the logs")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    rows = [row for name in options.networks for row in regrets(name, tvm.target.Target(options.target), options)]
    print(*map(json.dumps, rows), sep="\n")
    for choice in ("single", "confirmed"):
        values = np.array([row[choice] for row in rows])
        best = f"the best of {(values == 1).sum()} of {len(rows)} tasks"
        print(f"{choice:<10} mean {values.mean():.4f}, worst {values.max():.3f}, {best}")


if __name__ == "__main__":
    main()
