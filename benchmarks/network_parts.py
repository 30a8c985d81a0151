"""What a network adds to its operators: its latency as their sum while tuning, plus what they lose
in the network's process, in sequence, and between them.

    .venv/tvm/bin/python -m benchmarks.runtimes --networks alexnet resnet-18 --repeats 1
    .venv/tvm/bin/python -m benchmarks.network_parts tuned/runtimes/*/tune_network/0

Of each folder that `benchmarks.runtimes` left, the exported network runs in this process. An
operator *hot* runs again and again on the arguments that it has in the network; *in sequence* it
runs once, after the one before it: its weights come from memory, its inputs from the cores that
wrote them. *Cold weights* are the milliseconds that reading the weights from memory takes longer
than reading them hot, at the bandwidths of the roofline: at most, since reads overlap with
computation. The rest is between operators: the virtual machine, allocations, threads that wake up.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from autotvm_opevo.tuning.roofline import Roofline
from benchmarks import markdown, publish
from benchmarks.environment import processor

COLUMNS = (
    "network",
    "kernels",
    "as tuned",
    "hot",
    "in sequence",
    "weights, MB",
    "cold weights",
    "network",
    "network / as tuned",
    "most lost in sequence",
)
# Runs of a network, and seconds for each operator alone.
_RUNS, _SECONDS = 100, 0.05


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Say what a network adds to its operators.")
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument(
        "--threads", type=int, default=len(os.sched_getaffinity(0)), help="(default: all cores)"
    )
    publish.add_option(parser)
    options = parser.parse_args(arguments)
    os.environ["TVM_NUM_THREADS"] = str(options.threads)  # before TVM starts them
    from autotvm_opevo.meta_schedule.targets import as_target, local_cpu_target, measure_roofline

    roofline = measure_roofline(as_target(local_cpu_target()))
    rows = [row(folder, roofline) for folder in options.folders]
    text = (
        f"{markdown.table(COLUMNS, rows)}\n\n"
        f"Milliseconds, in {options.threads} threads of {processor()}."
    )
    if options.publish:
        publish.publish(options.publish, text, "network_parts", arguments)
    print(text)


def row(folder: Path, roofline: Roofline) -> list[str]:
    """A row of the table."""
    from benchmarks.runtimes import load_tvm, time_runs

    tuned = json.loads((folder / "tuned.json").read_text())["operators"]
    machine, run = load_tvm(str(folder / "network.so"))
    network = time_runs(run)
    in_sequence, hot = time_parts(machine, run)
    weights = weights_of(machine, run)
    lost = {name: in_sequence[name] - hot[name] for name in hot}
    by_kind: dict[str, float] = defaultdict(float)
    for (_, name), seconds in lost.items():
        by_kind[name.rstrip("0123456789").replace("_prepacked", "")] += seconds
    most = sorted(by_kind, key=lambda kind: -by_kind[kind])[:2]
    return [
        folder.parents[1].name,
        str(len(hot)),
        f"{1e3 * tuned:.2f}",
        f"{1e3 * sum(hot.values()):.2f}",
        f"{1e3 * sum(in_sequence.values()):.2f}",
        f"{sum(weights) / 1e6:.0f}",
        f"{1e3 * sum(cold(size, roofline) for size in weights):.2f}",
        f"{1e3 * network:.2f}",
        f"{network / tuned:.2f}",
        ", ".join(f"{kind} {1e3 * by_kind[kind]:.2f}" for kind in most),
    ]


# An operator's call in a run, and its name.
Call = tuple[int, str]


def time_parts(
    machine: Any, run: Callable[[], Any], seconds: float = _SECONDS
) -> tuple[dict[Call, float], dict[Call, float]]:
    """Seconds of a network's operators, in sequence and hot; medians.

    `run` runs the network on its Relax virtual machine; each operator runs hot for some seconds.
    """
    in_sequence: dict[Call, list[float]] = defaultdict(list)
    hot: dict[Call, float] = {}
    number, begin = 0, 0.0
    time_hot = False

    def instrument(function: Any, name: str, before: bool, _: Any, *arguments: Any) -> int:
        nonlocal number, begin
        if name.startswith("vm.builtin"):
            return 0
        if before:
            begin = time.perf_counter()
            return 0
        in_sequence[number, name].append(time.perf_counter() - begin)
        if time_hot:
            hot[number, name] = _again(lambda: function(*arguments), seconds)
        number += 1
        return 0

    machine.set_instrument(instrument)
    for _ in range(_RUNS):
        number = 0
        run()
    medians = {call: statistics.median(latencies) for call, latencies in in_sequence.items()}
    time_hot, number = True, 0
    run()
    return medians, hot


def weights_of(machine: Any, run: Callable[[], Any]) -> list[float]:
    """Bytes of each operator's weights: what no operator wrote, but for the network's input, which
    the first reads.
    """
    arguments_of: list[Sequence[Any]] = []

    def instrument(function: Any, name: str, before: bool, _: Any, *arguments: Any) -> int:
        if before and not name.startswith("vm.builtin"):
            arguments_of.append([argument for argument in arguments if hasattr(argument, "shape")])
        return 0

    machine.set_instrument(instrument)
    run()
    written = {_address(arguments[-1]) for arguments in arguments_of}
    written.add(_address(arguments_of[0][0]))
    return [
        sum(
            float(np.prod(a.shape)) * np.dtype(str(a.dtype)).itemsize
            for a in arguments
            if _address(a) not in written
        )
        for arguments in arguments_of
    ]


def _address(tensor: Any) -> int:
    return int(np.from_dlpack(tensor).ctypes.data)


def cold(size: float, roofline: Roofline) -> float:
    """Seconds by which reading so many bytes from memory takes longer than hot.

    >>> roofline = Roofline(bandwidths=((1e6, 1e11), (1e8, 2e10)))
    >>> round(1e6 * cold(1e6, roofline)), cold(1e8, roofline)
    (40, 0.0)
    """
    speeds = [speed for read, speed in roofline.bandwidths if read <= size]
    hot = speeds[-1] if speeds else roofline.bandwidth
    return size / roofline.memory_bandwidth - size / hot


def _again(run: Callable[[], Any], seconds: float) -> float:
    latencies: list[float] = []
    end = time.perf_counter() + seconds
    while len(latencies) < 5 or time.perf_counter() < end:
        begin = time.perf_counter()
        run()
        latencies.append(time.perf_counter() - begin)
    return statistics.median(latencies)


if __name__ == "__main__":
    main()
