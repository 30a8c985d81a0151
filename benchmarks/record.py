"""Measure a whole AutoTVM space on this machine, once, as a landscape for `benchmarks.compare`.

    python -m benchmarks.record matmul-64                     # a quarter of an hour
    python -m benchmarks.record C2 --part 0.1 --out c2.npz    # a random tenth

Every configuration is built, checked and timed in one worker process, which is replaced when it crashes or takes too long. The
file is written every half minute; a recording that was stopped goes on. At the end the best are timed again: the least of
thousands of noisy times is too good to be true. Nothing else should run meanwhile.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np
from tqdm import tqdm
from tvm import autotvm
from tvm.autotvm.measure import MeasureErrorNo
from tvm.autotvm.task.space import AnnotateSpace, OtherOptionSpace, ReorderSpace, SplitSpace
from tvm.contrib.popen_pool import PopenPoolExecutor

from autotvm_opevo._utils.atomic_files import write_whole
from benchmarks import operators, trial
from benchmarks.environment import machine
from benchmarks.landscape import FOLDER, Landscape, dump, entity_value, load

# Seconds for one configuration, and between two writes of the file.
_TIMEOUT, _WRITE = 10.0, 30.0
# So many of the best are timed again, so many times, and have the median of that.
_BEST, _AGAIN = 64, 5
# So many crashes in a row from the beginning are none of the configurations'.
_CRASHES = 8
CRASHED = MeasureErrorNo.RUNTIME_DEVICE
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
    except (RuntimeError, ValueError) as problem:
        sys.exit(str(problem))
    failed = np.isnan(landscape.time).mean()
    print(f"{path}: {len(landscape)} configurations, {failed:.0%} failed, best {landscape.optimum:.4g} ms")


def record(operator: str, target: str, part: float, path: Path) -> Landscape:
    """Measure what is not in the file yet."""
    if not 0 < part <= 1:
        raise ValueError(f"--part must be greater than 0 and at most 1, {part} given")
    fresh = empty(operator, target, operators.task(operator, target))
    landscape = load(path) if path.exists() else fresh
    if landscape.values != fresh.values or not fresh.about.items() <= landscape.about.items():
        raise ValueError(f"{path} is the landscape of another operator, target or machine: choose another file with --out")
    chosen = np.random.default_rng(0).permutation(landscape.size)[: round(part * landscape.size)]
    missing = [number for number in map(int, chosen) if number not in landscape]
    executor = PopenPoolExecutor(max_workers=1, timeout=_TIMEOUT)
    found: list[tuple[int, float, int]] = []
    written = time.monotonic()
    try:
        for number in tqdm(missing, initial=len(chosen) - len(missing), total=len(chosen), desc=operator, disable=None):
            found.append((number, *_measured(executor, operator, target, number)))
            if len(found) == _CRASHES and not len(landscape) and all(error == CRASHED for *_, error in found):
                raise RuntimeError(f"the first {_CRASHES} configurations crashed their process: something else is wrong")
            if time.monotonic() - written > _WRITE:
                landscape, found, written = _save(landscape, found, path), [], time.monotonic()
        landscape, found = _save(landscape, found, path), []
        if missing or not landscape.about.get("best_timed_again"):
            _time_again(landscape, executor, operator, target)
            write_whole(path, [dump(landscape)])
    finally:
        landscape = _save(landscape, found, path)
    return landscape


def _time_again(landscape: Landscape, executor: PopenPoolExecutor, operator: str, target: str) -> None:
    """Replace the times of the best."""
    best = [int(row) for row in np.argsort(landscape.time)[:_BEST] if landscape.error[row] == MeasureErrorNo.NO_ERROR]
    numbers = landscape.numbers(landscape.positions[best])
    rounds = [[_measured(executor, operator, target, number)[0] for number in numbers] for _ in range(_AGAIN)]
    again = np.array(rounds)
    steady = ~np.isnan(again).any(axis=0)  # one that fails now has worked before, and keeps its time
    landscape.time[np.array(best, dtype=int)[steady]] = np.median(again[:, steady], axis=0)
    landscape.about["best_timed_again"] = True


def empty(operator: str, target: str, task: autotvm.task.Task) -> Landscape:
    """A landscape of which nothing is known."""
    space = task.config_space.space_map
    return Landscape(
        name=operator,
        values={knob: [entity_value(entity) for entity in transform.entities] for knob, transform in space.items()},
        kinds={knob: next(kind for of, kind in _KINDS.items() if isinstance(transform, of)) for knob, transform in space.items()},
        positions=np.empty((0, len(space)), dtype=np.uint16),
        time=np.empty(0, dtype=np.float32),
        error=np.empty(0, dtype=np.uint8),
        about={"operator": operator, "target": target, **machine(target)},
    )


def _measured(executor: PopenPoolExecutor, operator: str, target: str, number: int) -> tuple[float, int]:
    try:
        outcome: tuple[float, int] = executor.submit(trial.measure, operator, target, number).result()
        return outcome
    except TimeoutError:
        return float("nan"), MeasureErrorNo.RUN_TIMEOUT
    except ChildProcessError:  # it crashed
        return float("nan"), CRASHED


def _save(landscape: Landscape, found: list[tuple[int, float, int]], path: Path) -> Landscape:
    """With what was found, also in the file."""
    if not found:
        return landscape
    numbers, times, errors = zip(*found)
    whole = Landscape(
        landscape.name,
        landscape.values,
        landscape.kinds,
        np.concatenate([landscape.positions, landscape.positions_of(numbers)]),
        np.concatenate([landscape.time, np.array(times, dtype=np.float32)]),
        np.concatenate([landscape.error, np.array(errors, dtype=np.uint8)]),
        landscape.about,
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, [dump(whole)])
    return whole


if __name__ == "__main__":
    main()
