"""Measure a whole AutoTVM space on this machine, as a landscape for `benchmarks.compare`.

    python -m benchmarks.record matmul-64                     # a quarter of an hour
    python -m benchmarks.record C2 --part 0.1 --out c2.npz    # a random tenth

Every configuration is built, checked and timed in a worker process, which is replaced when it
crashes or times out. The file is saved every half minute, and a stopped recording resumes. Finally
the best configurations are timed again, because the minimum of thousands of noisy times is biased.
Keep the machine otherwise idle.
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
from benchmarks.environment import environment
from benchmarks.landscape import FOLDER, Landscape, dump, entity_value, load

# Seconds per configuration, and between two saves.
_TIMEOUT, _SAVE_INTERVAL = 10.0, 30.0
# Number of best configurations to time again, and times; they get the median.
_BEST, _REPEATS = 64, 5
# Give up when this many configurations crash in a row at the start: something else is wrong.
_MAX_CRASHES = 8
CRASHED = MeasureErrorNo.RUNTIME_DEVICE
_KINDS = {
    SplitSpace: "split",
    ReorderSpace: "reorder",
    AnnotateSpace: "annotate",
    OtherOptionSpace: "other",
}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Measure a whole AutoTVM space on this machine.")
    parser.add_argument("operator", help=f"one of {', '.join(operators.names('llvm'))}")
    parser.add_argument("--target", default="llvm -mcpu=core-avx2")
    parser.add_argument(
        "--part", type=float, default=1.0, help="random fraction of the space (default: 1.0)"
    )
    parser.add_argument("--out", type=Path, help="output file (default: in benchmarks/landscapes)")
    options = parser.parse_args(arguments)
    path = options.out or FOLDER / f"{options.operator}.npz"
    try:
        landscape = record(options.operator, options.target, options.part, path)
    except (RuntimeError, ValueError) as problem:
        sys.exit(str(problem))
    failed = np.isnan(landscape.time).mean()
    print(
        f"{path}: {len(landscape)} configurations, {failed:.0%} failed, best "
        f"{landscape.optimum:.4g} ms"
    )


def record(operator: str, target: str, part: float, path: Path) -> Landscape:
    """Measure a random part of an operator's space, except for the configurations already in the
    file.

    Raises
    ------
    RuntimeError
        If the first configurations all crash.
    ValueError
        If `part` is out of range, or the file is of another operator, target or machine.
    """
    if not 0 < part <= 1:
        raise ValueError(f"--part must be greater than 0 and at most 1, {part} given")
    fresh = empty(operator, target, operators.task(operator, target))
    landscape = load(path) if path.exists() else fresh
    if landscape.values != fresh.values or not fresh.metadata.items() <= landscape.metadata.items():
        raise ValueError(
            f"{path} is the landscape of another operator, target or machine: use another --out"
        )
    chosen = np.random.default_rng(0).permutation(landscape.size)[: round(part * landscape.size)]
    missing = [index for index in map(int, chosen) if index not in landscape]
    executor = PopenPoolExecutor(max_workers=1, timeout=_TIMEOUT)
    results: list[tuple[int, float, int]] = []
    written = time.monotonic()
    try:
        for index in tqdm(
            missing,
            initial=len(chosen) - len(missing),
            total=len(chosen),
            desc=operator,
            disable=None,
        ):
            results.append((index, *_measure(executor, operator, target, index)))
            if (
                len(results) == _MAX_CRASHES
                and not len(landscape)
                and all(error == CRASHED for *_, error in results)
            ):
                raise RuntimeError(
                    f"the first {_MAX_CRASHES} configurations crashed their process: check "
                    "the target and the device"
                )
            if time.monotonic() - written > _SAVE_INTERVAL:
                landscape, results, written = _save(landscape, results, path), [], time.monotonic()
        landscape, results = _save(landscape, results, path), []
        if missing or not landscape.metadata.get("best_timed_again"):
            _time_again(landscape, executor, operator, target)
            write_whole(path, [dump(landscape)])
    finally:
        landscape = _save(landscape, results, path)
    return landscape


def _time_again(
    landscape: Landscape, executor: PopenPoolExecutor, operator: str, target: str
) -> None:
    """Replace the times of the best configurations by medians of repeated measurements."""
    best = [
        int(row)
        for row in np.argsort(landscape.time)[:_BEST]
        if landscape.error[row] == MeasureErrorNo.NO_ERROR
    ]
    indices = landscape.config_indices(landscape.knob_indices[best])
    rounds = [
        [_measure(executor, operator, target, index)[0] for index in indices]
        for _ in range(_REPEATS)
    ]
    again = np.array(rounds)
    steady = ~np.isnan(again).any(axis=0)  # one that fails this time keeps its first time
    landscape.time[np.array(best, dtype=int)[steady]] = np.median(again[:, steady], axis=0)
    landscape.metadata["best_timed_again"] = True


def empty(operator: str, target: str, task: autotvm.task.Task) -> Landscape:
    """A landscape without any measurement yet."""
    space = task.config_space.space_map
    return Landscape(
        name=operator,
        values={
            knob: [entity_value(entity) for entity in transform.entities]
            for knob, transform in space.items()
        },
        kinds={
            knob: next(kind for of, kind in _KINDS.items() if isinstance(transform, of))
            for knob, transform in space.items()
        },
        knob_indices=np.empty((0, len(space)), dtype=np.uint16),
        time=np.empty(0, dtype=np.float32),
        error=np.empty(0, dtype=np.uint8),
        metadata={"operator": operator, "target": target, **environment(target)},
    )


def _measure(
    executor: PopenPoolExecutor, operator: str, target: str, index: int
) -> tuple[float, int]:
    try:
        outcome: tuple[float, int] = executor.submit(
            trial.measure, operator, target, index
        ).result()
        return outcome
    except TimeoutError:
        return float("nan"), MeasureErrorNo.RUN_TIMEOUT
    except ChildProcessError:  # it crashed
        return float("nan"), CRASHED


def _save(landscape: Landscape, results: list[tuple[int, float, int]], path: Path) -> Landscape:
    """Add results to the landscape, and write it to the file."""
    if not results:
        return landscape
    indices, times, errors = zip(*results)
    whole = Landscape(
        landscape.name,
        landscape.values,
        landscape.kinds,
        np.concatenate([landscape.knob_indices, landscape.knob_indices_of(indices)]),
        np.concatenate([landscape.time, np.array(times, dtype=np.float32)]),
        np.concatenate([landscape.error, np.array(errors, dtype=np.uint8)]),
        landscape.metadata,
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, [dump(whole)])
    return whole


if __name__ == "__main__":
    main()
