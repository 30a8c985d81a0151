"""``tune``: tune a network, an operator or a model file with the TVM that is installed."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from autotvm_opevo._utils.cpu_cores import use_all_cores
from autotvm_opevo.cli import workload
from autotvm_opevo.cli.argument_types import TIMEOUT, duration, positive
from autotvm_opevo.tuning.result import UNLIMITED

SUMMARY = "tune a network, an operator or a model file"
DESCRIPTION = """Tune a network, an operator or a model file, with the TVM that is installed.

The same command resumes an interrupted run."""
EXAMPLES = """examples:
  %(prog)s --network alexnet --log alexnet.json
  %(prog)s --model resnet.onnx --shape data=1x3x224x224 --time-limit 2h --log resnet.json
  %(prog)s --operator nn.dense --tensor 64x512 --tensor 256x512 --trials 64 --log dense.json
  %(prog)s --operator nn.conv2d --tensor 1x3x224x224 --tensor 64x3x7x7 --attribute strides=[2,2] \\
      --attribute padding=[3,3] --log conv.json
  %(prog)s --network alexnet --target "llvm -mtriple=aarch64-linux-gnu -mattr=+neon" \\
      --rpc-tracker 127.0.0.1:9190 --rpc-key board --log alexnet.json

With MetaSchedule (TVM 0.27), operators are Relax's and --log is a folder:
  %(prog)s --operator matmul --tensor 64x512 --tensor 512x256 --trials 64 --log dense
"""
STATUS = """exit status: 0 success; 1 tuning failed, or the untuned and the tuned network could not
be compared or have different outputs; 2 invalid arguments; 130 interrupted."""


def add_arguments(tune: argparse.ArgumentParser) -> None:
    """Add the command's arguments to its parser."""
    tune.usage = f"%(prog)s {workload.USAGE} --log LOG [options]"
    workload.add_workload(tune)
    workload.add_target(tune, "this machine's GPU if it has one, or its CPU")
    tune.add_argument(
        "--log",
        required=True,
        help="AutoTVM's log file or MetaSchedule's work directory; resumed if it exists",
    )
    tune.add_argument(
        "--trials",
        type=positive,
        help="total number of trials, including those in the log (default: 1000; with a time limit "
        "and the gradient-based task scheduler as many as it allows)",
    )
    tune.add_argument(
        "--time-limit",
        type=duration,
        metavar="TIME",
        help="stop after this time, re-measuring included: seconds, or 45s, 90m, 2h",
    )
    tune.add_argument(
        "--tuner",
        choices=["opevo", "opevo-published", "xgb", "ga", "random", "gridsearch", "evolutionary"],
        default="opevo",
        help="opevo uses a Gaussian-process surrogate, opevo-published is the paper's OpEvo; "
        "evolutionary is MetaSchedule's, the others are AutoTVM's (default: opevo)",
    )
    tune.add_argument(
        "--task-scheduler",
        choices=["gradient", "equal", "round-robin"],
        default="gradient",
        help="how trials are divided among a network's tasks (default: gradient)",
    )
    tune.add_argument(
        "--early-stopping",
        type=positive,
        metavar="TRIALS",
        help="stop tuning a task after this number of trials without improvement (AutoTVM)",
    )
    tune.add_argument(
        "--history",
        action="append",
        default=[],
        metavar="LOG",
        help="log or work directory of another network, device or run to learn from; repeatable",
    )
    tune.add_argument(
        "--no-transfer",
        action="store_true",
        help="learn neither from other tasks nor from bundled tuning records",
    )
    tune.add_argument(
        "--seed",
        type=int,
        help="random seed of OpEvo and of MetaSchedule's search; AutoTVM's own tuners take none; "
        "proposals also depend on how long builds take",
    )
    tune.add_argument(
        "--timeout",
        type=duration,
        default=TIMEOUT,
        metavar="TIME",
        help="limit for one build and for one run (default: 20s)",
    )
    workload.add_devices(tune, "measure on the devices")


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit status."""
    use_all_cores()  # before TVM is imported; the result says on how many
    workload.check(options)
    if options.rpc_key is not None and options.target is None:
        raise ValueError("--rpc-key requires --target, that of the devices")
    if options.no_transfer and options.history:
        raise ValueError("--history and --no-transfer exclude each other: leave one out")
    tune = _tune_meta_schedule if workload.has_meta_schedule(options) else _tune_autotvm
    result = tune(options)
    print(result)
    if result.comparison is None and not result.comparison_error:  # no trial has succeeded
        return 0 if any(row.works for row in result.rows) else 1
    return 0 if result.comparison and result.comparison.outputs_match else 1


def _tune_meta_schedule(options: argparse.Namespace) -> Any:
    from autotvm_opevo.meta_schedule import (
        LocalBuilder,
        OpEvoStrategy,
        as_target,
        local_target,
        make_runner,
        tune_network,
    )
    from autotvm_opevo.networks import relax as workloads

    if options.early_stopping:
        raise ValueError("--early-stopping requires AutoTVM, this TVM has MetaSchedule")
    strategies = {
        "opevo": None,
        "opevo-published": OpEvoStrategy(surrogate=None, seed=options.seed),
        "evolutionary": "evolutionary",
    }
    if options.tuner not in strategies:
        one_of = f"one of {', '.join(strategies)} with MetaSchedule"
        raise ValueError(f"--tuner must be {one_of}, {options.tuner!r} given")
    if options.tuner != "opevo" and (options.history or options.no_transfer):
        opevo = f"--tuner opevo with MetaSchedule, {options.tuner} given"
        raise ValueError(f"--history and --no-transfer require {opevo}")
    target = as_target(_target(options, local_target))
    mod, params = workload.load(options, workloads)
    return tune_network(
        mod,
        params,
        target,
        options.log,
        strategy=strategies[options.tuner],
        builder=LocalBuilder(timeout_sec=options.timeout),
        runner=make_runner(options.timeout, *_devices(options)),
        **_common(options),
    )


def _tune_autotvm(options: argparse.Namespace) -> Any:
    from autotvm_opevo.autotvm import (
        OpEvoTuner,
        default_measure_option,
        local_target,
        tune_network,
    )
    from autotvm_opevo.autotvm.targets import as_target
    from autotvm_opevo.networks import relay as workloads
    from autotvm_opevo.tuning.workers import ForkServer

    ForkServer.start("autotvm_opevo.autotvm")  # it imports TVM while this process loads the model
    from tvm import autotvm

    tuners: dict[str, Any] = {
        "opevo": OpEvoTuner,
        "opevo-published": partial(OpEvoTuner, surrogate=None),
        "xgb": autotvm.tuner.XGBTuner,
        "ga": autotvm.tuner.GATuner,
        "random": autotvm.tuner.RandomTuner,
        "gridsearch": autotvm.tuner.GridSearchTuner,
    }
    if options.tuner == "evolutionary":
        raise ValueError("--tuner evolutionary requires MetaSchedule, this TVM has AutoTVM")
    target = as_target(_target(options, local_target))
    mod, params = workload.load(options, workloads)
    return tune_network(
        mod,
        params,
        target,
        options.log,
        measure_option=default_measure_option(target, options.timeout, *_devices(options)),
        tuner=tuners[options.tuner],
        early_stopping=options.early_stopping,
        **_common(options),
    )


def _devices(options: argparse.Namespace) -> Any:
    """A key, and the host and port of a tracker; None without these."""
    return options.rpc_key, *(options.rpc_tracker or (None, None))


def _common(options: argparse.Namespace) -> dict[str, Any]:
    """What both take; without trials, a time limit is the only one, unless it has to be divided."""
    unlimited = options.time_limit and options.task_scheduler == "gradient"
    return {
        "trials": options.trials or (UNLIMITED if unlimited else 1000),
        "time_limit": options.time_limit,
        "task_scheduler": options.task_scheduler,
        "seed": options.seed,
        "transfer": not options.no_transfer,
        "history": options.history,
    }


def _target(options: argparse.Namespace, local_target: Callable[[], Any]) -> Any:
    """The target that is given, else this machine's, which is said."""
    if options.target is not None:
        return options.target
    target, threads = local_target(), os.environ.get("TVM_NUM_THREADS")
    in_threads = f", with TVM_NUM_THREADS={threads}" if threads is not None else ""
    print(f"no --target given, this machine's is {target}{in_threads}", file=sys.stderr)
    return target
