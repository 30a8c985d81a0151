"""Measure a whole AutoTVM space on this machine, once, as a landscape for `benchmarks.compare`.

    python -m benchmarks.record matmul-64                     # a quarter of an hour
    python -m benchmarks.record C2 --part 0.1 --out c2.npz    # a random tenth

Every configuration is built, checked and timed in one worker process, which is replaced when it crashes or takes too long. The
file is written every half minute; a recording that was stopped goes on. Nothing else should run meanwhile.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from functools import lru_cache
from pathlib import Path
from typing import Any

os.environ.setdefault("TOPHUB_LOCATION", "NONE")  # TVM would look for pre-tuned schedules on the network

import numpy as np
import tvm
from tqdm import tqdm
from tvm import autotvm
from tvm.autotvm.measure import MeasureErrorNo
from tvm.autotvm.task.space import AnnotateSpace, OtherOptionSpace, ReorderSpace, SplitSpace
from tvm.contrib.popen_pool import PopenPoolExecutor

from autotvm_opevo.autotvm.history import write_whole
from benchmarks import operators
from benchmarks.landscape import Landscape, dump, load

FOLDER = Path(__file__).parent / "landscapes"
# Seconds for one configuration, and between two writes of the file.
_TIMEOUT, _WRITE = 10.0, 30.0
# A configuration runs so many times, each for at least so many milliseconds; the median is kept.
_REPEAT, _AT_LEAST_MS = 3, 8
_KINDS = {SplitSpace: "split", ReorderSpace: "reorder", AnnotateSpace: "annotate", OtherOptionSpace: "other"}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Measure a whole AutoTVM space on this machine.")
    parser.add_argument("operator", help=f"one of {', '.join(operators.names('llvm'))}")
    parser.add_argument("--target", default="llvm -mcpu=core-avx2")
    parser.add_argument("--part", type=float, default=1.0, help="of the space, chosen at random (default: all)")
    parser.add_argument("--out", type=Path, help="the file (default: in benchmarks/landscapes)")
    options = parser.parse_args(arguments)
    path = options.out or FOLDER / f"{options.operator}.npz"
    try:
        landscape = record(options.operator, options.target, options.part, path)
    except ValueError as problem:
        sys.exit(str(problem))
    failed = np.isnan(landscape.time).mean()
    print(f"{path}: {len(landscape)} configurations, {failed:.0%} failed, best {landscape.optimum:.4g} ms")


def record(operator: str, target: str, part: float, path: Path) -> Landscape:
    """Measure what is not in the file yet."""
    if not 0 < part <= 1:
        raise ValueError(f"--part must be greater than 0 and at most 1, {part} given")
    task = operators.task(operator, target)
    landscape = load(path) if path.exists() else empty(operator, target, task)
    if (landscape.about.get("operator"), landscape.about.get("target")) != (operator, target):
        raise ValueError(f"{path} is the landscape of another operator or target: choose another file with --out")
    chosen = np.random.default_rng(0).permutation(landscape.size)[: round(part * landscape.size)]
    missing = [number for number in map(int, chosen) if number not in landscape]
    executor = PopenPoolExecutor(max_workers=1, timeout=_TIMEOUT)
    found: list[tuple[int, float, int]] = []
    written = time.monotonic()
    try:
        for number in tqdm(missing, initial=len(chosen) - len(missing), total=len(chosen), desc=operator, disable=None):
            found.append((number, *_measured(executor, operator, target, number)))
            if time.monotonic() - written > _WRITE:
                landscape, found, written = _save(landscape, found, path), [], time.monotonic()
    finally:
        landscape = _save(landscape, found, path)
    return landscape


def empty(operator: str, target: str, task: autotvm.task.Task) -> Landscape:
    """A landscape of which nothing is known."""
    space = task.config_space.space_map
    return Landscape(
        name=operator,
        values={knob: [said(entity) for entity in transform.entities] for knob, transform in space.items()},
        kinds={knob: next(kind for of, kind in _KINDS.items() if isinstance(transform, of)) for knob, transform in space.items()},
        positions=np.empty((0, len(space)), dtype=np.uint16),
        time=np.empty(0, dtype=np.float32),
        error=np.empty(0, dtype=np.uint8),
        about={"operator": operator, "target": target, "device": processor(), "source": f"TVM {tvm.__version__}"},
    )


def said(entity: Any) -> Any:
    """What an entity says, for JSON."""
    for attribute in ("size", "perm", "anns", "val"):
        if hasattr(entity, attribute):
            value = getattr(entity, attribute)
            return list(value) if attribute != "val" else value
    raise TypeError(f"{entity!r} is no entity of AutoTVM's")


def _measured(executor: PopenPoolExecutor, operator: str, target: str, number: int) -> tuple[float, int]:
    try:
        outcome: tuple[float, int] = executor.submit(measure, operator, target, number).result()
        return outcome
    except TimeoutError:
        return float("nan"), MeasureErrorNo.RUN_TIMEOUT
    except ChildProcessError:  # it crashed
        return float("nan"), MeasureErrorNo.RUNTIME_DEVICE


def measure(operator: str, target: str, number: int) -> tuple[float, int]:
    """Milliseconds and error number of one configuration."""
    task, arrays, expected = _task(operator, target)
    config = task.config_space.get(number)
    try:
        with task.target:
            schedule, tensors = task.instantiate(config)
        if not config.valid():
            return float("nan"), MeasureErrorNo.INSTANTIATION_ERROR
    except Exception:
        return float("nan"), MeasureErrorNo.INSTANTIATION_ERROR
    try:
        with task.target:
            function = tvm.build(schedule, tensors)
    except Exception:
        return float("nan"), MeasureErrorNo.COMPILE_HOST
    function(*arrays)
    if not np.allclose(arrays[-1].numpy(), expected, rtol=1e-3, atol=1e-4):
        return float("nan"), MeasureErrorNo.WRONG_ANSWER
    device = tvm.device(task.target.kind.name, 0)
    timer = function.time_evaluator(function.entry_name, device, number=1, repeat=_REPEAT, min_repeat_ms=_AT_LEAST_MS)
    return float(np.median(timer(*arrays).results)) * 1e3, MeasureErrorNo.NO_ERROR


@lru_cache(maxsize=1)
def _task(operator: str, target: str) -> tuple[autotvm.task.Task, list[tvm.nd.NDArray], Any]:
    """The task, arrays to run on, and what the last of them must hold: what an unoptimised schedule computes."""
    task = operators.task(operator, target)
    with task.target:
        _, tensors = task.instantiate(task.config_space.get(0))
        plain = tvm.build(tvm.te.create_schedule(tensors[-1].op), tensors)
    rng = np.random.default_rng(0)
    device = tvm.device(task.target.kind.name, 0)
    shapes = [tuple(map(int, tensor.shape)) for tensor in tensors]
    arrays = [tvm.nd.array(rng.standard_normal(shape, dtype="float32"), device) for shape in shapes]
    plain(*arrays)
    return task, arrays, arrays[-1].numpy()


def _save(landscape: Landscape, found: list[tuple[int, float, int]], path: Path) -> Landscape:
    """With what was found, also in the file."""
    if not found:
        return landscape
    numbers, times, errors = zip(*found)
    lengths = [len(values) for values in landscape.values.values()]
    positions = np.stack(np.unravel_index(np.array(numbers), lengths, order="F"), axis=1)
    whole = Landscape(
        landscape.name,
        landscape.values,
        landscape.kinds,
        np.concatenate([landscape.positions, positions.astype(np.uint16)]),
        np.concatenate([landscape.time, np.array(times, dtype=np.float32)]),
        np.concatenate([landscape.error, np.array(errors, dtype=np.uint8)]),
        landscape.about,
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, [dump(whole)])
    return whole


def processor() -> str:
    """The CPU's name, as the system says it."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


if __name__ == "__main__":
    main()
