"""A whole Relax network, tuned as TVM does it and with `tune_network`.

    .venv/tvm/bin/python -m benchmarks.relax_network  # AlexNet: half an hour on two cores
    .venv/tvm/bin/python -m benchmarks.relax_network --networks resnet-18
    .venv/tvm/bin/python -m benchmarks.relax_network --trials 64 \\
        --methods "tune_network, no transfer" tune_network
    # a quarter of an hour a seed
    .venv/tvm/bin/python -m benchmarks.relax_network \\
        --methods "tune_relax at its defaults" "tune_network, no transfer" tune_network

``tune_relax`` is TVM's function: the layouts of the model, evolutionary search with an XGBoost cost
model. At its defaults it has TVM's builder and runner, rounds of 64 candidates, and trials for
several of these. Otherwise it has the builder and runner of `tune_network`, which are faster, and
rounds of fewer candidates, or tasks would be left without any; the last round may exceed the
trials. "evolutionary" is that search in `tune_network`. "convolutions left out" has no bundled
records of convolutions larger than 1x1, depthwise ones and those by Winograd's algorithm included,
nor of batched products, which that has.

Methods take turns. The tuned networks of a repetition and the untuned one are then timed in turn,
in rounds with new memory, and their outputs compared. A stopped benchmark resumes.
"""

import argparse
import tempfile
import time
from pathlib import Path
from unittest import mock

from tvm.s_tir import meta_schedule as ms

from autotvm_opevo.lowering.entry import bind_params
from autotvm_opevo.lowering.network import lower_as_imported
from autotvm_opevo.meta_schedule import (
    Comparison,
    LocalBuilder,
    LocalRunner,
    lower_for_tuning,
    open_database,
    tune_network,
)
from autotvm_opevo.meta_schedule import strategy as strategy_module
from autotvm_opevo.meta_schedule.evaluation import network_loader, open_device, random_inputs
from autotvm_opevo.meta_schedule.intrinsics import import_tensor_intrinsics
from autotvm_opevo.networks import relax as workloads
from benchmarks import publish
from benchmarks.environment import environment
from benchmarks.network_table import table, timings
from benchmarks.resume import in_turn, run_missing
from benchmarks.workloads import cpu

# Seconds for timing all networks of a repetition.
_TIMING_SECONDS = 60.0


def tune_relax(mod, params, folder, trials, seed, **options):
    """TVM's own function; returns the network as it was tuned, and the database."""
    lowered = lower_as_imported(bind_params(mod, params), cpu())
    ms.relax_integration.tune_relax(lowered, {}, cpu(), folder, trials, seed=seed + 1, **options)
    return lowered, open_database(folder)


def tune_relax_quickly(mod, params, folder, trials, seed):
    """The same with our builder and runner, and rounds in which every task has its turn."""
    lowered = lower_as_imported(bind_params(mod, params), cpu())
    size = min(64, max(1, trials // len(ms.relax_integration.extract_tasks(lowered, cpu()))))
    ours = {"builder": LocalBuilder(link=True), "runner": LocalRunner()}
    return tune_relax(mod, params, folder, trials, seed, num_trials_per_iter=size, **ours)


def tune_ours(mod, params, folder, trials, seed, **options):
    """`tune_network`; returns the network as it was tuned, and the database."""
    result = tune_network(mod, params, cpu(), folder, trials, seed=seed, evaluate=False, **options)
    return lower_for_tuning(mod, params, cpu()), open_database(result.best_file)


def left_out(*run):
    """`tune_network` without the bundled records of what `has_window`."""
    prior = strategy_module.prior
    with mock.patch.object(
        strategy_module,
        "prior",
        lambda target: [one for one in prior(target) if not has_window(one.space.knobs)],
    ):
        return tune_ours(*run)


def has_window(knobs):
    """Whether knobs are of a larger convolution, a part of Winograd's, or a batched product."""
    return "tile in 4 (3)" in knobs and knobs["tile in 2 (1)"].extent > 1


DEFAULTS = "tune_relax at its defaults"
# Of these: several rounds for all tasks.
DEFAULT_TRIALS = 1000
METHODS = {
    "tune_relax": tune_relax_quickly,
    "evolutionary in tune_network": lambda *run: tune_ours(*run, strategy="evolutionary"),
    "tune_network": tune_ours,
    "tune_network, no transfer": lambda *run: tune_ours(*run, transfer=False),
    "tune_network, convolutions left out": left_out,
    DEFAULTS: tune_relax,
}


def repetition(job):
    """Seconds of tuning and milliseconds of each method's network, and of the untuned one."""
    mod, params = workloads.network(job["network"])
    as_imported = lower_as_imported(bind_params(mod, params), cpu())
    networks, seconds = {}, {}
    with open_device(cpu()) as (device, upload):
        load = network_loader(cpu(), random_inputs(as_imported), device, upload)
        for name in in_turn(job["methods"], job["seed"]):
            with tempfile.TemporaryDirectory() as folder:
                trials = DEFAULT_TRIALS if name == DEFAULTS else job["trials"]
                start = time.perf_counter()
                tuned = METHODS[name](mod, params, folder, trials, job["seed"])
                seconds[name] = time.perf_counter() - start
                networks[name] = load(*tuned)
        comparison = Comparison(job["methods"])
        comparison.time_networks(
            [load(as_imported), *(networks[name] for name in job["methods"])], _TIMING_SECONDS
        )
    return {"seconds": seconds, **timings(comparison)}


def main(arguments=None):
    parser = argparse.ArgumentParser(
        description="Compare tune_network with TVM's tune_relax on whole networks."
    )
    parser.add_argument(
        "--networks", nargs="+", default=["alexnet"], choices=sorted(workloads.NETWORKS)
    )
    parser.add_argument(
        "--trials", type=int, default=208, help="per network, over all its tasks (default: 208)"
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument(
        "--methods",
        nargs="+",
        default=list(METHODS)[:3],
        choices=list(METHODS),
        help="the first is the baseline",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("tuned/relax-network.jsonl"),
        help="results, one repetition per line",
    )
    publish.add_option(parser)
    options = parser.parse_args(arguments)
    import_tensor_intrinsics()  # not in the time of the first method
    about = {"trials": options.trials, "methods": options.methods, **environment("llvm")}
    jobs = [
        {"network": name, "seed": seed, **about}
        for name in options.networks
        for seed in range(options.seeds)
    ]
    text = table(run_missing(jobs, repetition, options.out, unit="repetition"))
    publish.publish(options.publish, text, "relax_network", arguments)


if __name__ == "__main__":
    main()
