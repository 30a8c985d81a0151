"""A whole Relax network, tuned as TVM does it and with `tune_network`.

    .venv/tvm/bin/python -m benchmarks.relax_network  # AlexNet: half an hour on two cores
    .venv/tvm/bin/python -m benchmarks.relax_network --networks resnet-18
    .venv/tvm/bin/python -m benchmarks.relax_network --trials 64 \\
        --methods "tune_network, no transfer" tune_network

``tune_relax`` is TVM's function: the layouts of the model, evolutionary search with an XGBoost cost
model. The second method is that search in `tune_network`, the third `tune_network` at its defaults.
They take turns, with the same trials and the same builder and runner, which are faster than TVM's.
TVM's search has rounds of less than its 64 candidates, which would leave tasks without any, and may
exceed the trials in the last one. The tuned networks of a repetition and the untuned one are then
timed in turn, in rounds with new memory, and their outputs compared. A stopped benchmark resumes.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
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
from autotvm_opevo.meta_schedule.database import import_tensor_intrinsics
from autotvm_opevo.meta_schedule.evaluation import network_loader, open_device, random_inputs
from autotvm_opevo.networks import relax as workloads
from benchmarks import markdown, publish
from benchmarks.environment import environment
from benchmarks.resume import run_missing
from benchmarks.statistics import geometric_mean_interval
from benchmarks.workloads import cpu

# Seconds for timing all networks of a repetition.
_TIMING_SECONDS = 60.0


def tune_relax(mod, params, folder, trials, seed):
    """TVM's own function; returns the network as it was tuned, and the database."""
    lowered = lower_as_imported(bind_params(mod, params), cpu())
    tasks = len(ms.relax_integration.extract_tasks(lowered, cpu()))
    ms.relax_integration.tune_relax(
        lowered,
        {},
        cpu(),
        folder,
        max_trials_global=trials,
        num_trials_per_iter=min(64, max(1, trials // tasks)),
        builder=LocalBuilder(link=True),
        runner=LocalRunner(),
        seed=seed + 1,
    )
    return lowered, open_database(folder)


def tune_ours(mod, params, folder, trials, seed, **options):
    """`tune_network`; returns the network as it was tuned, and the database."""
    result = tune_network(mod, params, cpu(), folder, trials, seed=seed, evaluate=False, **options)
    return lower_for_tuning(mod, params, cpu()), open_database(result.best_file)


METHODS = {
    "tune_relax": tune_relax,
    "evolutionary in tune_network": lambda *run: tune_ours(*run, strategy="evolutionary"),
    "tune_network": tune_ours,
    "tune_network, no transfer": lambda *run: tune_ours(*run, transfer=False),
}


def repetition(job):
    """Seconds of tuning and milliseconds of each method's network, and of the untuned one."""
    mod, params = workloads.network(job["network"])
    names = job["methods"]
    first = job["seed"] % len(names)
    as_imported = lower_as_imported(bind_params(mod, params), cpu())
    networks, seconds = {}, {}
    with open_device(cpu()) as (device, upload):
        load = network_loader(cpu(), random_inputs(as_imported), device, upload)
        for name in names[first:] + names[:first]:
            with tempfile.TemporaryDirectory() as folder:
                start = time.perf_counter()
                tuned = METHODS[name](mod, params, folder, job["trials"], job["seed"])
                seconds[name] = time.perf_counter() - start
                networks[name] = load(*tuned)
        comparison = Comparison(names)
        comparison.time_networks(
            [load(as_imported), *(networks[name] for name in names)], _TIMING_SECONDS
        )
    errors = dict(zip(names, comparison.relative_errors))
    if not comparison.outputs_match:  # kept, or the next run would draw again
        return {"seconds": seconds, "milliseconds": {}, "relative_errors": errors}
    latencies = [comparison.race.latency(i).value for i in range(1 + len(names))]
    milliseconds = {name: 1e3 * latency for name, latency in zip(["untuned", *names], latencies)}
    return {"seconds": seconds, "milliseconds": milliseconds, "relative_errors": errors}


def table(runs):
    """Medians and ranges over the repetitions; those whose outputs differ are listed below it."""
    wrong = [run for run in runs if not run["milliseconds"]]
    runs = [run for run in runs if run["milliseconds"]]
    rows = []
    for network, name in dict.fromkeys(
        (run["network"], name) for run in runs for name in run["milliseconds"]
    ):
        mine = [run for run in runs if run["network"] == network]
        latency = np.array([run["milliseconds"][name] for run in mine])
        speedup = np.array([run["milliseconds"][mine[0]["methods"][0]] for run in mine]) / latency
        seconds = [run["seconds"].get(name, np.nan) for run in mine]
        took = "" if np.isnan(seconds).any() else f"{np.median(seconds):.0f}"
        rows.append([network, name, _spread(latency), _spread(speedup), took])
    baseline = runs[0]["methods"][0] if runs else ""
    text = markdown.table(
        ["network", "", "ms", f"times as fast as {baseline}", "seconds of tuning"], rows
    )
    leads = [_lead(network, runs) for network in dict.fromkeys(run["network"] for run in runs)]
    failures = [
        f"{run['network']}, seed {run['seed']}: outputs differ, errors {run['relative_errors']}"
        for run in wrong
    ]
    return "\n\n".join([text, *leads, *failures]).strip()


def _lead(network, runs):
    """How many times as fast the last method is as each of the others, with intervals, if there are
    enough repetitions.
    """
    mine = [run["milliseconds"] for run in runs if run["network"] == network]
    *others, last = runs[0]["methods"]
    if len(mine) < 3:
        return ""
    leads = []
    for other in others:
        interval = geometric_mean_interval([one[other] / one[last] for one in mine])
        leads.append("{:.2f} times ({:.2f} to {:.2f}) as fast as {}".format(*interval, other))
    return (
        f"{network}: {last} is {' and '.join(leads)}. Geometric means over {len(mine)} seeds, 95% "
        "intervals by Student's t of logarithms."
    )


def _spread(values):
    return f"{np.median(values):.3g} ({values.min():.3g} to {values.max():.3g})"


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
    if options.publish:
        publish.publish(options.publish, text, "relax_network", arguments)
    print(text)


if __name__ == "__main__":
    main()
