"""``tune``: a network, an operator or a model file, with the TVM that there is."""

from __future__ import annotations

import argparse
import json
import math
from functools import partial
from importlib.util import find_spec
from typing import Any

from autotvm_opevo.cli.command import command

_EXAMPLES = """examples:
  python -m autotvm_opevo tune --network alexnet --target "llvm -mcpu=core-avx2" --log alexnet.json
  python -m autotvm_opevo tune --model resnet.onnx --shape data=1x3x224x224 --target "llvm -mcpu=core-avx2" --log resnet.json
  python -m autotvm_opevo tune --operator nn.dense --tensor 64x512 --tensor 256x512 --target llvm --trials 64 --log dense.json
  python -m autotvm_opevo tune --operator nn.conv2d --tensor 1x3x224x224 --tensor 64x3x7x7 --attribute strides=[2,2] \\
      --attribute padding=[3,3] --target llvm --log conv.json
  python -m autotvm_opevo tune --network alexnet --target llvm --rpc-tracker 127.0.0.1:9190 --rpc-key cpu --log alexnet.json

With today's TVM, which has MetaSchedule in the place of AutoTVM, operators are Relax's and --log is a folder:
  python -m autotvm_opevo tune --operator matmul --tensor 64x512 --tensor 512x256 --target llvm --trials 64 --log dense

Tune a network, an operator or a model file with the TVM that is installed. The same command goes on where it was stopped.
`python -m autotvm_opevo doctor` prints the --target of this CPU.
"""
_STATUS = """exit status: 0 tuned; 1 it could not, or the tuned network computes something else; 2 a mistake on the command
line; 130 interrupted."""


def add(commands: Any) -> None:
    """Add the command to a parser's."""
    tune = command(commands, "tune", "tune a network, an operator or a model file", _EXAMPLES, _STATUS, _run)
    what = tune.add_argument_group("what").add_mutually_exclusive_group(required=True)
    what.add_argument(
        "--network",
        metavar="NAME",
        help="alexnet, mlp or resnet-18; with AutoTVM mobilenet, resnet-50, squeezenet and vgg-16, too",
    )
    what.add_argument(
        "--operator", metavar="NAME", help="an operator of Relay (AutoTVM), such as nn.dense, or Relax, such as matmul"
    )
    what.add_argument("--model", metavar="FILE", help="a file that TVM's frontends read, such as ONNX")
    tune.add_argument("--batch", type=_positive, help="the network's batch size (default: 1)")
    tune.add_argument(
        "--tensor", type=_shape, action="append", default=[], metavar="8x16", help="a tensor of the operator; repeat"
    )
    tune.add_argument("--dtype", default="float32", help="the operator's type (default: float32)")
    tune.add_argument("--attribute", type=_attribute, action="append", default=[], metavar="NAME=JSON", help="of the operator")
    tune.add_argument(
        "--shape", type=_named_shape, action="append", default=[], metavar="NAME=1x3x224x224", help="the model's input"
    )
    examples = 'llvm, "llvm -mcpu=core-avx2", cuda (AutoTVM) or nvidia/nvidia-h100'
    tune.add_argument("--target", required=True, help=f"a target of TVM, such as {examples}")
    tune.add_argument("--log", required=True, help="AutoTVM's log or MetaSchedule's folder: written, and gone on from")
    tune.add_argument("--trials", type=_positive, default=1000, help="in all, those in the log included (default: 1000)")
    tune.add_argument("--time-limit", type=_seconds, metavar="SECONDS", help="begin nothing after so long")
    tune.add_argument(
        "--tuner",
        choices=["opevo", "opevo-published", "xgb", "ga", "random", "gridsearch", "evolutionary"],
        default="opevo",
        help="opevo guides its proposals by a Gaussian process, opevo-published is the paper's, evolutionary is MetaSchedule's, "
        "the others are AutoTVM's (default: opevo)",
    )
    tune.add_argument("--task-scheduler", choices=["gradient", "equal", "round-robin"], default="gradient", help="of the trials")
    tune.add_argument(
        "--early-stopping", type=_positive, metavar="TRIALS", help="a task leaves after so many without a better one"
    )
    tune.add_argument("--seed", type=int, help="repeat a search, as far as the measurements repeat")
    tune.add_argument(
        "--timeout", type=_seconds, default=20, metavar="SECONDS", help="of one build, and of one run (default: 20)"
    )
    tune.add_argument("--rpc-tracker", metavar="HOST:PORT", type=_address, help="measure on the devices of a tracker")
    tune.add_argument("--rpc-key", metavar="KEY", help="the devices' key")
    tune.add_argument("--tvm", choices=["autotvm", "meta-schedule"], help="what of TVM to tune with (default: what there is)")


def _run(options: argparse.Namespace) -> int:
    if (options.rpc_tracker is None) != (options.rpc_key is None):
        raise ValueError("--rpc-tracker and --rpc-key are needed together, one is given")
    for name, only in (("batch", "network"), ("tensor", "operator"), ("attribute", "operator"), ("shape", "model")):
        if getattr(options, name) and not getattr(options, only):
            raise ValueError(f"--{name} is for --{only} alone")
    report = (_tune_meta_schedule if (options.tvm or _installed()) == "meta-schedule" else _tune_autotvm)(options)
    print(report)
    if report.speedup is None and not report.speedup_error:  # on other devices, from which MetaSchedule brings no network back
        return 0 if any(row.works for row in report.rows) else 1
    return 0 if report.speedup and report.speedup.outputs_match else 1


def _installed() -> str:
    """What the TVM that is installed has; AutoTVM, whose adapter says what is missing, when there is none."""
    try:
        return "meta-schedule" if find_spec("tvm.s_tir.meta_schedule") else "autotvm"
    except Exception:  # a TVM that cannot be imported may raise anything
        return "autotvm"


def _tune_meta_schedule(options: argparse.Namespace) -> Any:
    from autotvm_opevo.meta_schedule import OpEvoStrategy, as_target, local_builder, tune_network, workloads
    from autotvm_opevo.meta_schedule.runner import make_runner

    for name in ("time_limit", "early_stopping"):
        if getattr(options, name):
            raise ValueError(f"--{name.replace('_', '-')} is for AutoTVM alone, this TVM has MetaSchedule")
    surrogates = {"opevo": "gp", "opevo-published": None}
    if options.tuner not in (*surrogates, "evolutionary"):
        raise ValueError(f"--tuner must be opevo, opevo-published or evolutionary with MetaSchedule, {options.tuner!r} given")
    if options.task_scheduler == "equal":
        raise ValueError("--task-scheduler must be gradient or round-robin with MetaSchedule, 'equal' given")
    target = as_target(options.target)
    mod, params = _model(options, workloads)
    host, port = options.rpc_tracker or (None, None)
    runner = make_runner(options.timeout, options.rpc_key, host, port)
    own = options.tuner in surrogates
    return tune_network(
        mod,
        params,
        target,
        options.log,
        options.trials,
        strategy=OpEvoStrategy(surrogate=surrogates[options.tuner], seed=options.seed) if own else "evolutionary",
        builder=local_builder(timeout_sec=options.timeout),
        runner=runner,
        task_scheduler=options.task_scheduler,
        cost_model="none" if own else "xgb",
        seed=options.seed,
    )


def _tune_autotvm(options: argparse.Namespace) -> Any:
    from autotvm_opevo.autotvm.requirement import require_autotvm

    require_autotvm()
    import tvm
    from tvm import autotvm

    from autotvm_opevo.autotvm import OpEvoTuner, tune_network, workloads
    from autotvm_opevo.autotvm.measurer import default_measure_option

    tuners: dict[str, Any] = {
        "opevo": OpEvoTuner,
        "opevo-published": partial(OpEvoTuner, surrogate=None),
        "xgb": autotvm.tuner.XGBTuner,
        "ga": autotvm.tuner.GATuner,
        "random": autotvm.tuner.RandomTuner,
        "gridsearch": autotvm.tuner.GridSearchTuner,
    }
    if options.tuner == "evolutionary":
        raise ValueError("--tuner evolutionary is MetaSchedule's, this TVM has AutoTVM")
    try:
        target = tvm.target.Target(options.target)
    except (ValueError, tvm.TVMError):
        raise ValueError(f"--target must be a target of TVM, such as llvm or cuda; {options.target!r} given") from None
    mod, params = _model(options, workloads)
    host, port = options.rpc_tracker or (None, None)
    return tune_network(
        mod,
        params,
        target,
        options.log,
        trials=options.trials,
        measure_option=default_measure_option(target, options.timeout, options.rpc_key, host, port),
        time_limit=options.time_limit,
        tuner=tuners[options.tuner],
        task_scheduler=options.task_scheduler,
        early_stopping=options.early_stopping,
        seed=options.seed,
    )


def _model(options: argparse.Namespace, workloads: Any) -> Any:
    if options.network:
        return workloads.network(options.network, options.batch or 1)
    if options.operator:
        return workloads.operator(options.operator, options.tensor, options.dtype, dict(options.attribute))
    return workloads.model_file(options.model, dict(options.shape))


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be an integer of at least 1, {text!r} given")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise argparse.ArgumentTypeError(f"must be a positive number of seconds, {text!r} given")
    return seconds


def _shape(text: str) -> tuple[int, ...]:
    extents = text.split("x")
    if not all(extent.isdecimal() and int(extent) > 0 for extent in extents):
        raise argparse.ArgumentTypeError(f"must be extents of at least 1, such as 1x3x224x224, {text!r} given")
    return tuple(map(int, extents))


def _named_shape(text: str) -> tuple[str, tuple[int, ...]]:
    name, separator, shape = text.partition("=")
    if not separator:
        raise argparse.ArgumentTypeError(f"must be an input's name and shape, such as data=1x3x224x224, {text!r} given")
    try:
        return name, _shape(shape)
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(f"{error} for {name}") from None


def _attribute(text: str) -> tuple[str, Any]:
    name, _, value = text.partition("=")
    try:
        return name, json.loads(value)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a name and a value in JSON, such as strides=[2,2], {text!r} given") from None


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not port.isdecimal():
        raise argparse.ArgumentTypeError(f"must be a host and a port, such as 127.0.0.1:9190, {text!r} given")
    return host or "127.0.0.1", int(port)
