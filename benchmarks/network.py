"""A whole Relay network, tuned with XGBTuner, with `tune_network`, and as TVM's tutorials do it.

    python -m benchmarks.network  # AlexNet and ResNet-18, five seeds: over an hour on two cores
    python -m benchmarks.network --networks resnet-18 --seeds 1 --methods tutorial tune_network

``XGBTuner`` has all tasks, with the builder and runner of `tune_network`. ``tutorial`` is XGBTuner
as TVM's tutorial tune_relay_x86.py has it: convolutions only, one after the other, with AutoTVM's
builder and runner, and layouts chosen by its graph tuner, which takes minutes. ``Ansor`` is TVM's
auto_scheduler, with layouts as in tune_network_x86.py. ``MetaSchedule`` is that of this TVM, in the
layouts of the model; its rounds have fewer candidates than 64, or tasks would be left without any,
and its cost model needs ``xgboost<2``. Each network has the same trials with all methods; those
with XGBTuner divide them equally among tasks, and draw the first 64 of a task at random.

The methods take turns. The networks of a repetition, the untuned one, and the one with TopHub's
records, if ``--tophub`` is given, are then timed in turn, in rounds with new memory, and their
outputs compared. A stopped benchmark resumes.
"""

import argparse
import random
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np
import tvm
from tvm import auto_scheduler, autotvm, meta_schedule, relay
from tvm.autotvm.graph_tuner import DPTuner

from autotvm_opevo._utils.cpu_cores import physical_cores
from autotvm_opevo.autotvm import tune_network
from autotvm_opevo.autotvm.evaluation import build, load_networks, open_device
from autotvm_opevo.autotvm.extraction import extract, without_tophub
from autotvm_opevo.autotvm.folding import fold
from autotvm_opevo.autotvm.runner import LocalRunner
from autotvm_opevo.networks import relay as workloads
from autotvm_opevo.tuning.comparison import Comparison
from benchmarks import publish
from benchmarks.environment import environment
from benchmarks.network_table import UNTUNED, table, timings
from benchmarks.resume import in_turn, run_missing

# Seconds for timing all networks of a repetition.
_TIMING_SECONDS = 60.0
TOPHUB = "untuned, TopHub"


def seed_tvm(seed):
    """TVM's own tuners take no seed."""
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002


@without_tophub()
def tune_tutorial(mod, params, target, folder, trials, seed):
    """XGBTuner and the graph tuner, as the tutorial has them; returns the network."""
    seed_tvm(seed)
    mod, log, schedule = fold(mod, params), str(folder / "log.json"), str(folder / "graph.json")
    convolution = relay.op.get("nn.conv2d")
    tasks = autotvm.task.extract_from_program(mod["main"], {}, target, ops=(convolution,))
    runner = autotvm.LocalRunner(number=1, repeat=10, min_repeat_ms=0, enable_cpu_cache_flush=True)
    for task in tasks:
        size = min(trials // len(tasks), len(task.config_space))
        autotvm.tuner.XGBTuner(task).tune(
            n_trial=size,
            measure_option=autotvm.measure_option(autotvm.LocalBuilder(), runner),
            callbacks=[autotvm.callback.log_to_file(log)],
        )
    shapes = {
        data.name_hint: [int(size) for size in data.checked_type.shape]
        for data in relay.transform.InferType()(mod)["main"].params
    }
    about = {"log_file": str(folder / "graph_tuner.log"), "name": str(folder)}
    graph_tuner = DPTuner(mod["main"], shapes, log, [convolution], target, **about)
    graph_tuner.benchmark_layout_transform(min_exec_num=2000)
    graph_tuner.run()
    graph_tuner.write_opt_sch2record_file(schedule)
    with autotvm.apply_graph_best(schedule), tvm.transform.PassContext(opt_level=3):
        return relay.build(mod, target=target)


@without_tophub()
def tune_ansor(mod, params, target, folder, trials, seed):
    """TVM's auto_scheduler, as its tutorial has it; returns the network."""
    seed_tvm(seed)
    layouts = relay.transform.ConvertLayout({"nn.conv2d": ["NHWC", "default"]})
    with tvm.transform.PassContext(opt_level=3):
        mod = layouts(fold(mod, params))
    log = str(folder / "log.json")
    tasks, weights = auto_scheduler.extract_tasks(mod["main"], {}, target)
    options = auto_scheduler.TuningOptions(
        num_measure_trials=trials,
        runner=auto_scheduler.LocalRunner(repeat=10, enable_cpu_cache_flush=True),
        measure_callbacks=[auto_scheduler.RecordToFile(log)],
        verbose=0,
    )
    auto_scheduler.TaskScheduler(tasks, weights, callbacks=[]).tune(options)
    context = tvm.transform.PassContext(
        opt_level=3, config={"relay.backend.use_auto_scheduler": True}
    )
    with auto_scheduler.ApplyHistoryBest(log), context:
        return relay.build(mod, target=target)


@without_tophub()
def tune_meta_schedule(mod, params, target, folder, trials, seed):
    """TVM's MetaSchedule for Relay; returns the network."""
    integration, mod = meta_schedule.relay_integration, fold(mod, params)
    target = tvm.target.Target({**target.export(), "num-cores": physical_cores()})
    tasks = len(integration.extract_tasks(mod, target, {}))
    size = min(64, max(1, trials // tasks))
    database = integration.tune_relay(
        mod, {}, target, str(folder), trials, num_trials_per_iter=size, seed=seed + 1
    )
    return integration.compile_relay(database, mod, target, {})


def tune_ours(mod, params, target, folder, trials, seed, **options):
    """`tune_network`; returns the network."""
    result = tune_network(
        mod, params, target, folder / "log.json", trials, seed=seed, evaluate=False, **options
    )
    return build(fold(mod, params), target, Path(result.best_file))


METHODS = {
    "XGBTuner": partial(tune_ours, tuner=autotvm.tuner.XGBTuner, task_scheduler="equal"),
    "tune_network, no transfer": partial(tune_ours, transfer=False),
    "tune_network": tune_ours,
    "tutorial": tune_tutorial,
    "Ansor": tune_ansor,
    "MetaSchedule": tune_meta_schedule,
}


def repetition(job, tophub):
    """Seconds of tuning and milliseconds of each method's network, and of those without tuning."""
    mod, params = workloads.network(job["network"])
    target = tvm.target.Target(job["target"])
    whole = fold(mod, params)
    trials = job["trials_per_task"] * len(extract(whole, target).tasks)
    built, seconds = {UNTUNED: build(whole, target)}, {}
    if tophub:
        built[TOPHUB] = build(whole, target, tophub)
    for name in in_turn(job["methods"], job["seed"]):
        with tempfile.TemporaryDirectory() as folder:
            start = time.perf_counter()
            network = METHODS[name](mod, params, target, Path(folder), trials, job["seed"])
            seconds[name] = time.perf_counter() - start
            built[name] = network
    others = [*(built.keys() - {UNTUNED, *job["methods"]}), *job["methods"]]
    comparison = Comparison(others)
    with open_device(target, LocalRunner()) as (device, upload):
        loaders = load_networks([built[n] for n in [UNTUNED, *others]], whole, device, upload)
        comparison.time_networks(loaders, _TIMING_SECONDS)
    return {"seconds": seconds, **timings(comparison)}


def main(arguments=None):
    parser = argparse.ArgumentParser(
        description="Compare tune_network with XGBTuner on whole networks."
    )
    parser.add_argument(
        "--networks",
        nargs="+",
        default=["alexnet", "resnet-18"],
        choices=sorted(workloads.NETWORKS),
    )
    parser.add_argument("--target", default="llvm -mcpu=core-avx2")
    parser.add_argument(
        "--trials-per-task", type=int, default=16, help="on average over tasks (default: 16)"
    )
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument(
        "--methods",
        nargs="+",
        default=list(METHODS)[:3],
        choices=list(METHODS),
        help="the first is the baseline",
    )
    parser.add_argument("--tophub", type=Path, help="file of TopHub's records for the target")
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("tuned/network.jsonl"),
        help="results, one repetition per line",
    )
    publish.add_option(parser)
    options = parser.parse_args(arguments)
    about = {key: getattr(options, key) for key in ("target", "trials_per_task", "methods")}
    jobs = [
        {"network": name, "seed": seed, **about, **environment("llvm")}
        for seed in range(options.seeds)
        for name in options.networks
    ]
    run = partial(repetition, tophub=options.tophub)
    text = table(run_missing(jobs, run, options.out, unit="repetition"))
    publish.publish(options.publish, text, "network", arguments)


if __name__ == "__main__":
    main()
