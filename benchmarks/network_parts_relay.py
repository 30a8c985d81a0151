"""What a network adds to its operators, with AutoTVM: as `benchmarks.network_parts` says it.

    .venv/autotvm/bin/python -m benchmarks.network_parts_relay --networks alexnet resnet-18

Tunes each network, and runs it with TVM's debug executor, which times single operators.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tvm
from tvm.contrib import graph_executor
from tvm.contrib.debugger.debug_executor import GraphModuleDebug

from autotvm_opevo.autotvm import local_target, tune_network
from autotvm_opevo.autotvm.evaluation import build
from autotvm_opevo.autotvm.folding import fold
from autotvm_opevo.autotvm.targets import as_target
from autotvm_opevo.networks import relay
from benchmarks.network_parts import RUNS, SECONDS, Parts, add_options, report, save
from benchmarks.runtimes import time_runs

NETWORKS = "alexnet", "resnet-18", "resnet-50", "mobilenet", "squeezenet"
# To tune a network; and measurements of an operator alone.
_TRIALS, _REPEAT = 200, 5


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Say what a network adds to its operators.")
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=NETWORKS)
    parser.add_argument("--target", help="(default: this machine's)")
    add_options(parser)
    options = parser.parse_args(arguments)
    os.environ["TVM_NUM_THREADS"] = str(options.threads)  # before TVM starts them
    measured = [save(measure(name, options.target), options.out) for name in options.networks]
    report(measured, "network_parts_relay", options, arguments)


def measure(network: str, target: str | None) -> Parts:
    """Tune a network, and time its parts."""
    (mod, params), device = relay.network(network), tvm.cpu()
    on = as_target(target or local_target())
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log.json"
        result = tune_network(mod, params, on, log, trials=_TRIALS, seed=0, evaluate=False)
        assert result.best_file is not None
        library = build(fold(mod, params), on, result.best_file)
        run = graph_executor.GraphModule(library["default"](device)).run
        before = time_runs(run)
        graph = library.get_graph_json()
        executor = GraphModuleDebug(
            library["debug_create"]("default", device), [device], graph, folder
        )
        in_sequence, hot = time_parts(executor, json.loads(graph)["nodes"])
        whole = min(before, time_runs(run))  # the cores may move in between
    return Parts(network, tvm.__version__, result.latency, hot, in_sequence, whole)


def time_parts(
    executor: GraphModuleDebug, nodes: Sequence[Any], seconds: float = SECONDS
) -> tuple[dict[str, float], dict[str, float]]:
    """Seconds of a network's operators by call, in sequence and hot; medians."""
    seconds_of: dict[str, list[float]] = defaultdict(list)
    for _ in range(RUNS):
        for number, call in enumerate(executor.profile().calls):
            if call["Name"] != "__nop":  # a reshape
                seconds_of[f"{number} {call['Name'].removeprefix('tvmgen_default_')}"].append(
                    1e-6 * call["Duration (us)"].microseconds
                )
    in_sequence = {call: statistics.median(durations) for call, durations in seconds_of.items()}
    operators = [index for index, node in enumerate(nodes) if node["op"] == "tvm_op"]
    repeat_ms = round(1e3 * seconds / _REPEAT)
    hot = {
        call: executor.run_individual_node(
            operators[int(call.split()[0])], 1, _REPEAT, repeat_ms
        ).median
        for call in in_sequence
    }
    return in_sequence, hot


if __name__ == "__main__":
    main()
