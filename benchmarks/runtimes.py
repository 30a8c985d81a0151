"""Networks tuned by `tune_network` beside what people would pick instead: ONNX Runtime and
OpenVINO, which need no tuning.

    .venv/tvm/bin/pip install onnxruntime openvino
    .venv/tvm/bin/python -m benchmarks.runtimes                              # six networks: a night
    .venv/tvm/bin/python -m benchmarks.runtimes --networks alexnet mobilenet --repeats 2 \\
        --time-limit 60

All run the same ONNX file, batch 1, float32, in as many threads. A network is tuned several times
with the command line's defaults; then each of these and each runtime, in turns, runs in processes
of its own. A process's latency is the median of its runs; a row has the median of the processes and
their range. It is so many *times as fast* as the better of both runtimes by medians, with the range
of single turns. A process is timed again if before or after it the cores were farther apart than
they can be, see `benchmarks.core_to_core`. A benchmark that was stopped resumes with the same
options: no tuning or timing that ended is repeated, and the one that was stopped begins anew.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np

from autotvm_opevo._utils.atomic_files import write_whole
from benchmarks import markdown, onnx_networks, publish
from benchmarks.core_to_core import core_to_core
from benchmarks.environment import processor

# Tuned as the command line does it, and by a package without bundled tuning records, which may have
# been recorded on such a machine and for such layers.
TUNED = "tune_network", "without bundled records"
BASELINES = "ONNX Runtime", "OpenVINO"
PACKAGES = {"TVM": "apache-tvm", "ONNX Runtime": "onnxruntime", "OpenVINO": "openvino"}
# Seconds before a process times its runs, and of these; and seconds after which a process hangs.
_WARM_UP, _SECONDS, _TIMEOUT = 1.0, 2.0, 600.0
# Of a process, while the cores are farther apart than this many times the nearest that they were.
_ATTEMPTS, _FAR = 5, 2.0
# Of all attempts, and the larger of each process that counts, those of earlier runs too.
_distances: list[float] = []
_counted: list[float] = []
COLUMNS = (
    "network",
    "trials",
    "tuning, s",
    "bound",
    "its operators",
    *TUNED,
    *BASELINES,
    "times as fast",
)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Compare tuned networks with other runtimes.")
    parser.add_argument(
        "--networks",
        nargs="+",
        choices=[*onnx_networks.NETWORKS],
        default=[*onnx_networks.NETWORKS],
    )
    parser.add_argument(
        "--repeats",
        type=int,
        default=5,
        help="how often each is tuned, with seeds from 0 on (default: 5)",
    )
    parser.add_argument(
        "--processes",
        type=int,
        default=7,
        help="of each runtime, and of the tuned networks together; rounded up to a multiple of "
        "--repeats (default: 7)",
    )
    parser.add_argument(
        "--time-limit", type=float, default=300.0, help="of tuning, in seconds (default: 300)"
    )
    parser.add_argument(
        "--threads", type=int, default=len(os.sched_getaffinity(0)), help="(default: all cores)"
    )
    parser.add_argument(
        "--target", default="", help="of the tuned networks (default: this machine's CPU)"
    )
    parser.add_argument("--out", type=Path, default=Path("tuned/runtimes"))
    publish.add_option(parser)
    parser.add_argument("--time", nargs=2, metavar=("RUNTIME", "FILE"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.time:
        print(json.dumps(time_runs(RUNTIMES[options.time[0]](options.time[1], options.threads))))
        return
    names = "repeats", "time_limit", "threads", "target"
    versions = ", ".join(f"{name} {version(package)}" for name, package in PACKAGES.items())
    used = {
        **{name: vars(options)[name] for name in names},
        "processor": processor(),
        "versions": versions,
    }
    known = options.out / "options.json"
    if known.exists() and json.loads(known.read_text()) != used:
        parser.error(f"{options.out} has results with other options: {known.read_text()}")
    options.out.mkdir(parents=True, exist_ok=True)
    known.write_text(json.dumps(used))
    rows = []
    for network in options.networks:
        rows.append(compare(network, options))
        print(markdown.table(COLUMNS, [rows[-1]]).splitlines()[-1], flush=True)
    target = f", for {options.target}" if options.target else ""
    machine = f"Milliseconds, in {options.threads} threads of {processor()}{target}; {versions}."
    if far := count_far():
        machine += f" The cores were far apart in {far} of {len(_counted)} processes."
    text = f"{markdown.table(COLUMNS, rows)}\n\n{machine}"
    # latencies only, and without their ranges, for the width of a page
    medians = [[row[0], *(cell.partition(" (")[0] for cell in row[5:-1]), row[-1]] for row in rows]
    summary = f"{markdown.table(COLUMNS[:1] + COLUMNS[5:], medians)}\n\n{machine}"
    publish.publish(options.publish, text, "runtimes", arguments, summary=summary)


def compare(network: str, options: argparse.Namespace) -> list[str]:
    """A row of the table."""
    folder, seeds = options.out / network, range(options.repeats)
    folder.mkdir(parents=True, exist_ok=True)
    model = folder / f"{network}.onnx"
    if not model.exists():
        onnx_networks.save(network, model)
    tuned = {
        variant: [tune(model, folder / variant / str(seed), seed, options) for seed in seeds]
        for variant in TUNED
    }
    known = folder / "timed.json"
    names = *TUNED, *BASELINES
    # for each name the seconds of its processes, with how far the cores were apart
    timed = json.loads(known.read_text()) if known.exists() else {name: [] for name in names}
    _distances.extend(distance for processes in timed.values() for _, distance in processes)
    for turn, seed in enumerate([*seeds] * ceil(options.processes / options.repeats)):
        for name in names:
            if turn == len(timed[name]):
                file = folder / name / str(seed) / "network.so" if name in TUNED else model
                timed[name].append(time_process(name, file, options))
                write_whole(known, [json.dumps(timed).encode()])
    _counted.extend(distance for processes in timed.values() for _, distance in processes)
    seconds = {name: [each for each, _ in timed[name]] for name in names}
    return as_row(network, tuned[TUNED[0]], seconds)


def as_row(
    network: str, tuned: Sequence[Mapping[str, float]], timed: Mapping[str, Sequence[float]]
) -> list[str]:
    """A row of the table, of runs of tuning and of the latencies of processes in their turns."""
    medians = {name: statistics.median(latencies) for name, latencies in timed.items()}
    ratio = min(medians[baseline] for baseline in BASELINES) / medians[TUNED[0]]
    turns = zip(timed[TUNED[0]], *(timed[baseline] for baseline in BASELINES))
    ratios = [min(baselines) / own for own, *baselines in turns]
    trials, seconds, bound, operators = (
        statistics.median(run[key] for run in tuned)
        for key in ("trials", "seconds", "bound", "operators")
    )
    cells = [
        f"{1e3 * medians[name]:.1f} ({1e3 * min(timed[name]):.1f} to {1e3 * max(timed[name]):.1f})"
        for name in timed
    ]
    return [
        network,
        f"{trials:.0f}",
        f"{seconds:.0f}",
        f"{1e3 * bound:.1f}" if bound else "unknown",
        f"{1e3 * operators:.1f}",
        *cells,
        f"{ratio:.2f} ({min(ratios):.2f} to {max(ratios):.2f})",
    ]


def time_process(name: str, file: Path, options: argparse.Namespace) -> tuple[float, float]:
    """Seconds of a run in a process of its own, while the cores are near each other, and how far
    they were apart.
    """
    command = [sys.executable, "-m", "benchmarks.runtimes", "--threads", str(options.threads)]
    for _ in range(_ATTEMPTS):
        distances = [core_to_core()]
        ran = subprocess.run(
            [*command, "--time", name, str(file)],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
            env=_environment(options),
            timeout=_TIMEOUT,
        )
        distances.append(core_to_core())
        _distances.extend(distances)
        if max(distances) <= _FAR * min(_distances):
            break
    return float(json.loads(ran.stdout.splitlines()[-1])), max(distances)


def count_far() -> int:
    """The processes that count though the cores were far apart: in every attempt, or before they
    were near for the first time.
    """
    nearest = min([*_distances, *_counted], default=0.0)
    return sum(distance > _FAR * nearest for distance in _counted)


def tune(model: Path, folder: Path, seed: int, options: argparse.Namespace) -> dict[str, float]:
    """Tune a network in a process of its own, and export it; returns trials, seconds, and how long
    its operators take, at least and as measured.
    """
    result = folder / "tuned.json"
    if not result.exists():
        # its log would give a run that was stopped all of the time again
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        arguments = str(model), str(folder), seed, options.time_limit, options.target
        code = f"from benchmarks.runtimes import tune_and_export; tune_and_export{arguments}"
        subprocess.run([sys.executable, "-c", code], check=True, env=_environment(options))
    return dict(json.loads(result.read_text()))


def tune_and_export(model: str, folder: str, seed: int, time_limit: float, target: str) -> None:
    """In a new process, tune into a folder of a variant's; it tunes as the command line does."""
    from autotvm_opevo.meta_schedule import compile_network, strategy, tune_network
    from autotvm_opevo.meta_schedule.targets import local_cpu_target
    from autotvm_opevo.networks import relax
    from autotvm_opevo.tuning.result import UNLIMITED

    if Path(folder).parent.name != TUNED[0]:
        strategy.prior = lambda target: ()
    mod, params = relax.model_file(model)
    target, work_dir = target or local_cpu_target(), Path(folder) / "log"
    result = tune_network(
        mod, params, target, work_dir, UNLIMITED, time_limit=time_limit, seed=seed, evaluate=False
    )
    compile_network(mod, params, target, result.best_file).export_library(
        str(Path(folder) / "network.so")
    )
    said = {
        "trials": result.trials,
        "seconds": result.seconds,
        "bound": result.bound,
        "operators": result.latency,
    }
    (Path(folder) / "tuned.json").write_text(json.dumps(said))


def _environment(options: argparse.Namespace) -> dict[str, str]:
    return {**os.environ, "TVM_NUM_THREADS": str(options.threads)}


def time_runs(
    run: Callable[[], Any], warm_up: float = _WARM_UP, seconds: float = _SECONDS, least: int = 10
) -> float:
    """Median seconds of a run, after a warm-up, over some seconds and at least so many runs."""
    end = time.monotonic() + warm_up
    while time.monotonic() < end:
        run()
    latencies: list[float] = []
    end = time.monotonic() + seconds
    while len(latencies) < least or time.monotonic() < end:
        start = time.perf_counter()
        run()
        latencies.append(time.perf_counter() - start)
    return statistics.median(latencies)


def _inputs(shape: Any) -> Any:
    return np.random.default_rng(0).standard_normal([*map(int, shape)]).astype("float32")


def load_tvm(file: str) -> tuple[Any, Callable[[], Any]]:
    """The virtual machine of an exported network of `tune_and_export`, and what runs it once."""
    import onnx
    import tvm
    from tvm import relax

    (data,) = onnx.load(str(next(Path(file).parents[2].glob("*.onnx")))).graph.input
    shape = [extent.dim_value for extent in data.type.tensor_type.shape.dim]
    machine = relax.VirtualMachine(tvm.runtime.load_module(file), tvm.cpu())
    data = tvm.runtime.tensor(_inputs(shape))
    return machine, lambda: machine["main"](data)


def _tvm(file: str, threads: int) -> Callable[[], Any]:
    return load_tvm(file)[1]


def _onnx_runtime(file: str, threads: int) -> Callable[[], Any]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    (data,) = session.get_inputs()
    values = {data.name: _inputs(data.shape)}
    return lambda: session.run(None, values)


def _openvino(file: str, threads: int) -> Callable[[], Any]:
    import openvino

    # Float32, as the others have; by default it may compute in bfloat16 where the CPU can.
    options = {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": threads,
        "INFERENCE_PRECISION_HINT": "f32",
    }
    compiled = openvino.compile_model(file, "CPU", options)
    request, values = compiled.create_infer_request(), _inputs(compiled.input(0).shape)
    return lambda: request.infer([values], share_inputs=True)


# Each loads a file and returns what runs it once.
RUNTIMES: dict[str, Callable[[str, int], Callable[[], Any]]] = {
    **dict.fromkeys(TUNED, _tvm),
    "ONNX Runtime": _onnx_runtime,
    "OpenVINO": _openvino,
}

if __name__ == "__main__":
    main()
