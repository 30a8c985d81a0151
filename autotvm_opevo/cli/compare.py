"""``compare``: build a network with the best of several logs, and tell which is the fastest."""

from __future__ import annotations

import argparse
from typing import Any

from autotvm_opevo._utils.cpu_cores import use_all_cores
from autotvm_opevo.cli import workload
from autotvm_opevo.cli.argument_types import TIMEOUT, duration
from autotvm_opevo.tuning.logs import check_logs

SUMMARY = "tell which of several logs makes a network fastest"
DESCRIPTION = """Tell which of several logs makes a network fastest.

The network is built untuned and with the best of each log. Outputs are compared. All are timed
interleaved, until an interval tells the fastest log from the others, or the time is over. Then the
operators that differ most are timed alone. Times in logs cannot be compared: the machine may have
been slower during one run."""
EXAMPLES = """examples:
  %(prog)s a.best.json b.best.json --network alexnet
  %(prog)s alexnet.best.json --network alexnet              with the untuned network only
  %(prog)s a.json b.json c.json --model resnet.onnx --shape data=1x3x224x224 --time-limit 10m
  %(prog)s a.json b.json --operator nn.dense --tensor 64x512 --tensor 256x512
  %(prog)s a.json b.json --network alexnet --rpc-tracker 127.0.0.1:9190 --rpc-key cpu

With MetaSchedule (TVM 0.27), logs are folders of databases:
  %(prog)s a/best b/best --network alexnet
"""
STATUS = """exit status: 0 timed, whether or not the logs could be told apart; 1 a log could not be
read, a network could not be built or run, or the outputs differ; 2 invalid arguments, or a log
without records of this network; 130 interrupted."""


def add_arguments(compare: argparse.ArgumentParser) -> None:
    """Add the command's arguments to its parser."""
    compare.usage = f"%(prog)s LOG [LOG ...] {workload.USAGE} [options]"
    compare.add_argument(
        "logs", nargs="+", metavar="LOG", help="AutoTVM log, or folder of a MetaSchedule database"
    )
    workload.add_workload(compare)
    workload.add_target(compare, "the one for which the logs have records")
    compare.add_argument(
        "--time-limit",
        type=duration,
        default=180.0,
        metavar="TIME",
        help="stop timing after this time: seconds, or 45s, 90m, 2h (default: 3m); builds come "
        "before it",
    )
    workload.add_devices(compare, "time on a device")


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit status."""
    use_all_cores()  # before TVM is imported
    workload.check(options)
    check_logs(options.logs)  # before TVM is imported, which takes seconds
    compare_logs: Any
    workloads: Any
    runner: Any = None
    if workload.has_meta_schedule(options):
        from autotvm_opevo.meta_schedule import compare_logs, make_runner
        from autotvm_opevo.networks import relax as workloads

        if options.rpc_tracker:
            runner = make_runner(TIMEOUT, options.rpc_key, *options.rpc_tracker)
    else:
        from autotvm_opevo.autotvm import compare_logs
        from autotvm_opevo.networks import relay as workloads

        if options.rpc_tracker:
            from tvm import autotvm

            runner = autotvm.RPCRunner(options.rpc_key, *options.rpc_tracker)
    mod, params = workload.load(options, workloads)
    comparison = compare_logs(
        mod, params, options.target, options.logs, time_limit=options.time_limit, runner=runner
    )
    print(comparison)
    return 0 if comparison.outputs_match else 1
