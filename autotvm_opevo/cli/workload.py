"""The options of all commands that build a network: which, with which TVM, for which devices."""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from autotvm_opevo._utils.timeouts import say_if_long
from autotvm_opevo.cli.argument_types import address, attribute, named_shape, positive, shape
from autotvm_opevo.networks.names import AUTOTVM, META_SCHEDULE, check_network

# In the usage of a command, whose options are too many for one line.
USAGE = "(--network NAME | --model FILE | --operator NAME)"
_REPEATABLE: Any = {"action": "append", "default": []}


def add_workload(parser: argparse.ArgumentParser) -> None:
    """Add the options that name a network, an operator or a model file."""
    group = parser.add_argument_group("workload, exactly one of the first three")
    what = group.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "--network",
        metavar="NAME",
        help=f"a network with random weights; with AutoTVM {', '.join(AUTOTVM)}; with MetaSchedule "
        f"{', '.join(META_SCHEDULE)}",
    )
    what.add_argument(
        "--model",
        metavar="FILE",
        help="an ONNX file; with AutoTVM any file that tvmc reads, such as TFLite",
    )
    what.add_argument(
        "--operator",
        metavar="NAME",
        help="an operator of Relay (AutoTVM), such as nn.dense, or Relax, such as matmul",
    )
    group.add_argument(
        "--batch", type=positive, metavar="N", help="batch size of the network (default: 1)"
    )
    group.add_argument(
        "--tensor",
        type=shape,
        metavar="8x16",
        help="shape of an operator's input; repeatable",
        **_REPEATABLE,
    )
    group.add_argument("--dtype", help="data type of the operator (default: float32)")
    group.add_argument(
        "--attribute",
        type=attribute,
        metavar="NAME=JSON",
        help="attribute of the operator; repeatable",
        **_REPEATABLE,
    )
    group.add_argument(
        "--shape",
        type=named_shape,
        metavar="NAME=1x3x224x224",
        help="shape of a model's input, by its name in the file; repeatable",
        **_REPEATABLE,
    )
    group.add_argument(
        "--layout",
        metavar="NCHW",
        help="layout to convert a model's convolutions to, such as NCHW for those of TensorFlow "
        "(AutoTVM)",
    )


def add_target(parser: argparse.ArgumentParser, default: str) -> None:
    """Add the option for the target, given what it is by default, in words."""
    targets = '"llvm -mcpu=core-avx2", cuda (AutoTVM) or nvidia/nvidia-h100'
    parser.add_argument("--target", help=f"TVM's target, such as {targets} (default: {default})")


def add_devices(parser: argparse.ArgumentParser, purpose: str) -> None:
    """Add the options for the devices of a tracker, given their purpose, and for the TVM."""
    parser.add_argument(
        "--rpc-tracker", metavar="HOST:PORT", type=address, help=f"{purpose} of this RPC tracker"
    )
    parser.add_argument("--rpc-key", metavar="KEY", help="key of the devices")
    parser.add_argument(
        "--tvm",
        choices=["autotvm", "meta-schedule"],
        help="tuning system to use (default: the one installed)",
    )


def check(options: argparse.Namespace) -> None:
    """Raise `ValueError` for options that do not go together."""
    if (options.rpc_tracker is None) != (options.rpc_key is None):
        raise ValueError("--rpc-tracker and --rpc-key require each other, only one is given")
    belongs_to = {
        **{"batch": "network", "shape": "model", "layout": "model"},
        **dict.fromkeys(("tensor", "dtype", "attribute"), "operator"),
    }
    for name, only in belongs_to.items():
        if getattr(options, name) and not getattr(options, only):
            raise ValueError(f"--{name} requires --{only}")
    if options.layout and has_meta_schedule(options):
        raise ValueError("--layout requires AutoTVM, this TVM has MetaSchedule")
    if options.network:
        check_network(options.network, META_SCHEDULE if has_meta_schedule(options) else AUTOTVM)


def has_meta_schedule(options: argparse.Namespace) -> bool:
    """Whether to use MetaSchedule: as given, or as installed. Without a TVM it is AutoTVM, whose
    adapter raises an error that names what is missing.
    """
    if options.tvm:
        return bool(options.tvm == "meta-schedule")
    tvm = find_spec("tvm")  # not find_spec("tvm.s_tir"), which imports TVM
    folders = (tvm.submodule_search_locations if tvm else None) or []
    return any((Path(folder) / "s_tir" / "meta_schedule").is_dir() for folder in folders)


def load(options: argparse.Namespace, workloads: Any) -> Any:
    """The network and its weights, made by an adapter's `workloads`."""
    if options.operator:
        return workloads.operator(
            options.operator, options.tensor, options.dtype or "float32", dict(options.attribute)
        )
    with say_if_long(f"reading {options.model or options.network}"):
        if options.network:
            return workloads.network(options.network, options.batch or 1)
        layout = {"layout": options.layout} if options.layout else {}
        return workloads.model_file(options.model, dict(options.shape), **layout)
