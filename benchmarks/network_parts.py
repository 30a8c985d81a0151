"""What a network adds to its operators: its latency as their sum while tuning, plus what they lose
in the network's process, in sequence, and between them.

    .venv/tvm/bin/python -m benchmarks.runtimes --networks alexnet resnet-18 --repeats 1
    .venv/tvm/bin/python -m benchmarks.network_parts tuned/runtimes/*/tune_network/0
    .venv/autotvm/bin/python -m benchmarks.network_parts_relay --picture docs/network_parts.png

Of each folder that `benchmarks.runtimes` left, the exported network runs in this process. An
operator *hot* runs again and again on the arguments that it has in the network; *in sequence* it
runs once, after the one before it: its weights come from memory, its inputs from the cores that
wrote them. *Cold weights* are the milliseconds that reading the weights from memory takes longer
than reading them hot, at the bandwidths of the roofline: at most, since reads overlap with
computation. The rest is between operators: the virtual machine, allocations, threads that wake up.

The picture has the last measurement of each network, of AutoTVM's by `network_parts_relay`, too.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tvm

from autotvm_opevo._utils import jsonl
from autotvm_opevo.tuning.roofline import Roofline
from benchmarks import markdown, plots, publish, resume
from benchmarks.environment import processor
from benchmarks.runtimes import load_tvm, time_runs

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
RUNS, SECONDS = 100, 0.05


@dataclass(frozen=True)
class Parts:
    """Seconds of a network and of its operators."""

    network: str
    tvm: str  # version
    tuned: float  # the operators, as tuning measured them
    hot: dict[str, float]  # by operator, and in sequence
    in_sequence: dict[str, float]
    whole: float
    weights: float | None = None  # bytes
    cold: float | None = None

    def cells(self) -> list[str]:
        """A row of the table."""
        by_kind: dict[str, float] = defaultdict(float)
        for name, seconds in self.in_sequence.items():
            kind = name.split(" ")[-1].rstrip("0123456789_").replace("_prepacked", "")
            by_kind[kind] += seconds - self.hot[name]
        most = sorted(by_kind, key=lambda kind: -by_kind[kind])[:2]
        return [
            self.network,
            str(len(self.hot)),
            f"{1e3 * self.tuned:.2f}",
            f"{1e3 * sum(self.hot.values()):.2f}",
            f"{1e3 * sum(self.in_sequence.values()):.2f}",
            "" if self.weights is None else f"{self.weights / 1e6:.0f}",
            "" if self.cold is None else f"{1e3 * self.cold:.2f}",
            f"{1e3 * self.whole:.2f}",
            f"{self.whole / self.tuned:.2f}",
            ", ".join(f"{kind} {1e3 * by_kind[kind]:.2f}" for kind in most),
        ]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add those of both TVMs."""
    parser.add_argument(
        "--threads", type=int, default=len(os.sched_getaffinity(0)), help="(default: all cores)"
    )
    parser.add_argument("--out", type=Path, default=Path("tuned/network-parts.jsonl"))
    parser.add_argument("--picture", type=Path, help="where to draw what this file has")
    publish.add_option(parser)


def save(parts: Parts, file: Path) -> Parts:
    """Append what was measured of a network, and return it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    jsonl.append(file, asdict(parts))
    return parts


def report(
    measured: Sequence[Parts], name: str, options: argparse.Namespace, arguments: list[str] | None
) -> None:
    """Print and publish what was measured, and draw what the file has."""
    if options.picture:
        last = {(p["tvm"], p["network"]): Parts(**p) for p in resume.read(options.out)}
        plots.draw_parts(
            {
                f"{network}, TVM {version}": (
                    1e3 * parts.tuned,
                    1e3 * sum(parts.hot.values()),
                    1e3 * sum(parts.in_sequence.values()),
                    1e3 * parts.whole,
                )
                for (version, network), parts in sorted(last.items())
            },
            options.picture,
        )
    text = (
        f"{markdown.table(COLUMNS, [parts.cells() for parts in measured])}\n\n"
        f"Milliseconds, in {options.threads} threads of {processor()}."
    )
    publish.publish(options.publish, text, name, arguments)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Say what a network adds to its operators.")
    parser.add_argument("folders", nargs="+", type=Path)
    add_options(parser)
    options = parser.parse_args(arguments)
    os.environ["TVM_NUM_THREADS"] = str(options.threads)  # before TVM starts them
    from autotvm_opevo.meta_schedule.targets import as_target, local_cpu_target, measure_roofline

    roofline = measure_roofline(as_target(local_cpu_target()))
    measured = [save(measure(folder, roofline), options.out) for folder in options.folders]
    report(measured, "network_parts", options, arguments)


def measure(folder: Path, roofline: Roofline) -> Parts:
    """The parts of an exported network."""
    tuned = json.loads((folder / "tuned.json").read_text())["operators"]
    machine, run = load_tvm(str(folder / "network.so"))
    whole = time_runs(run)
    in_sequence, hot = time_parts(machine, run)
    weights = weights_of(machine, run)
    network, cold_weights = folder.parents[1].name, sum(cold(size, roofline) for size in weights)
    version = tvm.__version__
    return Parts(network, version, tuned, hot, in_sequence, whole, sum(weights), cold_weights)


def time_parts(
    machine: Any, run: Callable[[], Any], seconds: float = SECONDS
) -> tuple[dict[str, float], dict[str, float]]:
    """Seconds of a network's operators by call, in sequence and hot; medians.

    `run` runs the network on its Relax virtual machine; each operator runs hot for some seconds.
    """
    in_sequence: dict[str, list[float]] = defaultdict(list)
    hot: dict[str, float] = {}
    number, begin = 0, 0.0
    time_hot = False

    def instrument(function: Any, name: str, before: bool, _: Any, *arguments: Any) -> int:
        nonlocal number, begin
        if name.startswith("vm.builtin"):
            return 0
        if before:
            begin = time.perf_counter()
            return 0
        call = f"{number} {name}"
        in_sequence[call].append(time.perf_counter() - begin)
        if time_hot:
            hot[call] = time_runs(lambda: function(*arguments), 0.0, seconds, least=5)
        number += 1
        return 0

    machine.set_instrument(instrument)
    for _ in range(RUNS):
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
    known = [speed for read, speed in roofline.bandwidths if read <= size]
    hot = known[-1] if known else roofline.bandwidths[0][1]
    return size / roofline.bandwidths[-1][1] - size / hot


if __name__ == "__main__":
    main()
