"""Tune AlexNet on this machine's CPU with `tune_network` and with XGBTuner, for a minute each: what
``make tune-network`` runs.

    python -m benchmarks.tune_alexnet
    python -m benchmarks.tune_alexnet --seconds 300 --network resnet-18

Both have the same builder, runner, task scheduler and time; XGBTuner then chooses the
configurations, and begins without the tuning records that the package bundles for its own
tuner, recorded on x86 CPUs. What each has found is built, and timed in turn with the untuned
network. What this machine can gain at most is said first.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from datetime import datetime
from math import inf
from pathlib import Path
from typing import Any

import tvm
from tvm import autotvm

from autotvm_opevo import OpEvoTuner, use_all_cores
from autotvm_opevo.autotvm import LocalRunner, compare_logs, tune_network
from autotvm_opevo.autotvm.evaluation import Instance, build, open_device, random_inputs
from autotvm_opevo.autotvm.extraction import extract
from autotvm_opevo.autotvm.folding import fold
from autotvm_opevo.autotvm.targets import local_cpu_target, work
from autotvm_opevo.networks import relay as workloads
from autotvm_opevo.tuning.comparison import Comparison
from autotvm_opevo.tuning.result import UNLIMITED

TUNERS: dict[str, Callable[..., Any]] = {
    "tune_network": OpEvoTuner,
    "XGBTuner": autotvm.tuner.XGBTuner,
}
COMPARISON_SECONDS = 40


def limits(mod: tvm.IRModule, params: Any, target: tvm.target.Target) -> tuple[float, float]:
    """Milliseconds of the untuned network, and of its tunable operators if each were at the
    machine's limit; 0 if that is unknown, as of a GPU.
    """
    mod = fold(mod, params)
    runner = LocalRunner()
    roofline = runner.roofline(target)
    runner.close()
    tasks, operators, *_ = extract(mod, target)
    fastest = [
        min((roofline.latency(*work(tasks[i])) for i in one.tasks), default=inf)
        for one in operators
    ]
    library = build(mod, target, None)
    with open_device(target, runner, 60) as (device, upload):
        untuned = Instance(upload(library)(), device, random_inputs(mod))
        latency = min(untuned.seconds() for _ in range(5))
    return latency * 1e3, sum(one.count * seconds for one, seconds in zip(operators, fastest)) * 1e3


def conclusion(comparison: Comparison, seconds: float) -> str:
    """Which network is faster, in a sentence; the first log is `tune_network`'s."""
    untuned, ours, theirs = (comparison.race.latency(i).value * 1e3 for i in range(3))
    ratio, low, high = comparison.race.speedup(1, 2)
    after = (
        f"after {seconds:.0f} s of tuning each: {ours:.1f} ms, {theirs:.1f} ms, and "
        f"{untuned:.1f} ms untuned"
    )
    if low <= 1 <= high:
        return (
            f"tune_network and XGBTuner cannot be told apart ({low:.2f} to {high:.2f} times), "
            f"{after}."
        )
    first, second = ("tune_network", "XGBTuner") if ratio > 1 else ("XGBTuner", "tune_network")
    return f"{first}'s network is {max(ratio, 1 / ratio):.2f} times as fast as {second}'s, {after}."


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description="Tune a network with tune_network and with XGBTuner, for as long each."
    )
    parser.add_argument(
        "--network", default="alexnet", help="alexnet, resnet-18, ... (default: alexnet)"
    )
    parser.add_argument("--target", help="TVM target (default: this machine's CPU)")
    parser.add_argument(
        "--seconds", type=float, default=60, help="for tuning with each (default: 60)"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed (default: 0)")
    parser.add_argument("--out", type=Path, help="output directory (default: a new one in tuned/)")
    options = parser.parse_args(arguments)
    if options.seconds <= 0:
        parser.error(f"--seconds must be positive, {options.seconds:g} given")
    out = options.out or Path("tuned") / f"{options.network}-{datetime.now():%Y%m%d-%H%M%S}"
    out.mkdir(parents=True, exist_ok=True)
    if done := use_all_cores():
        print(done)

    mod, params = workloads.network(options.network)
    target = tvm.target.Target(options.target or local_cpu_target())
    untuned, limit = limits(mod, params, target)
    print(f"{options.network} for {target}: {untuned:.1f} ms untuned")
    if limit:  # which is known of a CPU only
        print(
            f"At this CPU's limits its operators take {limit:.1f} ms. So at most "
            f"{max(1.0, untuned / limit):.1f} times can be gained, without Winograd's algorithm, "
            "which AutoTVM lacks."
        )
    print(
        "tune_network begins with bundled tuning records, recorded on x86 CPUs; XGBTuner with none."
    )
    logs = []
    try:
        for name, tuner in TUNERS.items():
            print(f"\n{name}, {options.seconds:g} s:", flush=True)
            result = tune_network(
                mod,
                params,
                target,
                out / f"{name}.json",
                trials=UNLIMITED,
                time_limit=options.seconds,
                tuner=tuner,
                seed=options.seed,
                evaluate=False,
            )
            print(f"{result.trials} trials, {result.latency * 1e3:.1f} ms in tuned operators")
            logs.append(str(result.best_file))
        comparison = compare_logs(mod, params, target, logs, time_limit=COMPARISON_SECONDS)
    except KeyboardInterrupt:
        parser.exit(130, f"\ntune_alexnet: interrupted; the trials so far are in {out}\n")
    print(f"\n{comparison}\n\nlogs: {out}")
    print(conclusion(comparison, options.seconds))
    print(f"Next, where the time goes: python -m autotvm_opevo report {out / 'tune_network.json'}")


if __name__ == "__main__":
    main()
