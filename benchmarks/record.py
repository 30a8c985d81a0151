"""Measure whole AutoTVM spaces on this machine, as landscapes for `benchmarks.compare`.

    python -m benchmarks.record matmul-64              # a quarter of an hour
    python -m benchmarks.record topi topi-held-out     # TOPI's templates for x86

Configurations are built in batches on all cores, and run one after the other while nothing is
built. Each batch is saved, and a stopped recording resumes. Finally the best configurations are
timed again, because the minimum of thousands of noisy times is biased. Keep the machine otherwise
idle.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np
from tqdm import tqdm
from tvm import autotvm
from tvm.autotvm.measure import MeasureErrorNo, MeasureInput, MeasureResult
from tvm.autotvm.task import Task
from tvm.contrib.cc import create_shared

from autotvm_opevo._utils.atomic_files import write_whole
from autotvm_opevo.autotvm import LocalBuilder, LocalRunner
from benchmarks import operators
from benchmarks.environment import environment
from benchmarks.landscape import FOLDER, Array, Landscape, dump, knob_values, load

# Configurations in a batch.
_BATCH = 64
# Seconds for one build, and for one run; what takes longer to compile is rarely fast.
_BUILD_TIMEOUT, _RUN_TIMEOUT = 4, 10
# Timings of a configuration, whose median counts, and the shortest duration of each.
_REPEAT, _MIN_REPEAT_MS = 3, 8
# Number of best configurations to time again, and times; they get the median.
_BEST, _ROUNDS = 32, 5
# Any other outcome of all configurations of the first batch has a cause of its own.
_PLAUSIBLE = {MeasureErrorNo.NO_ERROR, MeasureErrorNo.INSTANTIATION_ERROR}
# Folders with spaces of their own.
_GROUPS = {"topi": operators.TOPI, "topi-held-out": operators.TOPI_HELD_OUT}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Measure whole AutoTVM spaces on this machine.")
    names = [*_GROUPS, *operators.names("llvm")]
    parser.add_argument(
        "operators",
        nargs="+",
        metavar="operator",
        choices=names,
        help=f"some of {', '.join(names)}; the first two are groups",
    )
    parser.add_argument("--target", default="llvm -mcpu=core-avx2")
    parser.add_argument("--out", type=Path, help="output file (default: in benchmarks/landscapes)")
    options = parser.parse_args(arguments)
    chosen = [operator for name in options.operators for operator in _GROUPS.get(name, [name])]
    if options.out and len(chosen) > 1:
        parser.error("--out is the file of one operator")
    for operator in chosen:
        path = options.out or _file(operator)
        try:
            landscape = record(operator, options.target, path)
        except (RuntimeError, ValueError) as problem:
            sys.exit(str(problem))
        failed = np.isnan(landscape.time).mean()
        print(
            f"{path}: {len(landscape)} configurations, {failed:.0%} failed, best "
            f"{landscape.optimum:.4g} ms",
            flush=True,
        )


def _file(operator: str) -> Path:
    group = next((group for group, some in _GROUPS.items() if operator in some), "")
    return FOLDER / group / f"{operator}.npz"


def record(operator: str, target: str, path: Path) -> Landscape:
    """Measure an operator's space in random order, except for the configurations already in the
    file.

    Raises
    ------
    RuntimeError
        If all configurations of the first batch fail.
    ValueError
        If the file is of another operator, target or machine.
    """
    task = operators.task(operator, target)
    fresh = empty(operator, target, task)
    landscape = load(path) if path.exists() else fresh
    if landscape.values != fresh.values or not fresh.metadata.items() <= landscape.metadata.items():
        raise ValueError(
            f"{path} is the landscape of another operator, target or machine: use another --out"
        )
    order = np.random.default_rng(0).permutation(landscape.size)
    missing = [index for index in map(int, order) if index not in landscape]
    if not missing and landscape.metadata.get("best_timed_again"):
        return landscape
    path.parent.mkdir(parents=True, exist_ok=True)
    builder = LocalBuilder(_BUILD_TIMEOUT, build_func=create_shared)
    runner = LocalRunner(
        _RUN_TIMEOUT, number=1, repeat=_REPEAT, min_repeat_ms=_MIN_REPEAT_MS, cooldown_interval=0
    )
    with (
        closing(builder),
        closing(runner),
        # some templates then omit what cannot be measured on its own
        mock.patch.object(autotvm.GLOBAL_SCOPE, "in_tuning", True),
        tqdm(initial=len(landscape), total=landscape.size, desc=operator, disable=None) as progress,
    ):
        runner.set_task(task)
        builder.set_task(task, runner.get_build_kwargs())
        for first in range(0, len(missing), _BATCH):
            batch = missing[first : first + _BATCH]
            inputs = _inputs(task, batch)
            results = runner.run(inputs, builder.build(inputs))
            errors = {result.error_no for result in results}
            if not len(landscape) and not errors & _PLAUSIBLE:
                raise RuntimeError(
                    f"the first {len(batch)} configurations failed, check the target and the "
                    f"device: {results[0].costs[-1]}"
                )
            landscape = _extended(landscape, batch, results)
            write_whole(path, [dump(landscape)])
            progress.update(len(batch))
        best = [
            int(row)
            for row in np.argsort(landscape.time)[:_BEST]
            if landscape.error[row] == MeasureErrorNo.NO_ERROR
        ]
        inputs = _inputs(task, landscape.config_indices(landscape.knob_indices[best]))
        builds = builder.build(inputs)
        rounds = [_milliseconds(runner.run(inputs, builds)) for _ in range(_ROUNDS)]
    _time_again(landscape, best, np.array(rounds))
    write_whole(path, [dump(landscape)])
    return landscape


def _inputs(task: Task, indices: Iterable[int]) -> list[MeasureInput]:
    return [MeasureInput(task.target, task, task.config_space.get(index)) for index in indices]


def _milliseconds(results: Iterable[MeasureResult]) -> list[float]:
    """The median time of each, NaN if it failed."""
    return [
        1e3 * float(np.median(result.costs)) if result.error_no == 0 else float("nan")
        for result in results
    ]


def _time_again(landscape: Landscape, best: Sequence[int], rounds: Array) -> None:
    """Replace the times of the best configurations by medians over rounds, except of those that
    failed in one.
    """
    steady = ~np.isnan(rounds).any(axis=0)
    landscape.time[np.array(best, dtype=int)[steady]] = np.median(rounds[:, steady], axis=0)
    landscape.metadata["best_timed_again"] = True


def empty(operator: str, target: str, task: autotvm.task.Task) -> Landscape:
    """A landscape without any measurement yet."""
    values = knob_values(task.config_space)
    return Landscape(
        name=operator,
        values=values,
        knob_indices=np.empty((0, len(values)), dtype=np.uint16),
        time=np.empty(0, dtype=np.float32),
        error=np.empty(0, dtype=np.uint8),
        metadata={"operator": operator, "target": target, **environment(target)},
    )


def _extended(
    landscape: Landscape, indices: Sequence[int], results: Sequence[MeasureResult]
) -> Landscape:
    """A landscape with more configurations."""
    times = np.array(_milliseconds(results), dtype=np.float32)
    errors = np.array([result.error_no for result in results], dtype=np.uint8)
    return replace(
        landscape,
        knob_indices=np.concatenate([landscape.knob_indices, landscape.knob_indices_of(indices)]),
        time=np.concatenate([landscape.time, times]),
        error=np.concatenate([landscape.error, errors]),
    )


if __name__ == "__main__":
    main()
