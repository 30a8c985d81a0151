"""Compare tuners on emulated GPU tasks: AutoTVM's CUDA templates, whose spaces are too large to
record.

    python -m benchmarks.emulated FOLDER
    python -m benchmarks.emulated FOLDER --tuners OpEvo --seeds 10 --batch 64

A file ``.npz`` in the folder is a task's *pool*: the configurations that tuners measured on a GPU.
Regression trees and a Gaussian process, fitted to their run times, predict those of the whole
space; which configurations fail is computed. So every figure of this benchmark is *emulated*: what
tuners find where the emulator extrapolates may not be as fast on the GPU.

- ``index``, int64 [configurations]: AutoTVM's index in the task's space,
- ``time``, float32 [configurations]: milliseconds; NaN if the configuration failed,
- ``error``, uint8 [configurations]: AutoTVM's error number,
- ``meta``, JSON: ``template``, ``args`` and ``target`` of the task; ``device`` and ``source``.

``pip install scikit-learn`` first. A stopped comparison resumes. The folder ``--out`` gets
``runs.jsonl``, ``tables.md`` and the fitted emulators.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import pickle
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import tvm.topi  # noqa: F401  registers the templates
from scipy.stats import spearmanr
from tvm.autotvm.task import Task

from autotvm_opevo.autotvm.space import Knob
from benchmarks import markdown, publish, replay, runs
from benchmarks.landscape import INSTANTIATION_ERROR
from benchmarks.resume import read
from benchmarks.tables import summary, tables

Array = np.ndarray[Any, np.dtype[Any]]
Sizes = dict[str, Array]  # parts of each tile, shape (configurations, parts)

# Limits of CUDA on the threads of a block, in all and along z, and on its shared memory, in bytes.
_MAX_THREADS, _MAX_THREADS_Z, _MAX_SHARED = 1024, 64, 48 * 1024
# Of the emulator: raised with every change of what it predicts, so that runs on an earlier one are
# not resumed.
_VERSION = 1
# Hyperparameters of the Gaussian process are fitted to so many configurations.
_MAX_FIT = 400
_FOLDS = 5


class Pool:
    """A task, and the configurations that tuners measured.

    Attributes
    ----------
    name : str
    task : tvm.autotvm.task.Task
    index, time, error : array, shape (configurations,)
        See the module.
    """

    def __init__(self, path: Path) -> None:
        with np.load(path) as file:
            meta = json.loads(str(file["meta"]))
            self.index, self.time, self.error = file["index"], file["time"], file["error"]
        self.name = path.stem
        self.task = replay.task_of(meta)
        self._arguments = meta["args"]
        self._entities: Sizes = {}
        for name, transform in self.task.config_space.space_map.items():
            knob = Knob(transform)
            values = [np.atleast_1d(knob.value(entity)) for entity in transform.entities]
            self._entities[name] = np.array(values)

    def sizes(self, index: Array) -> Sizes:
        """Parts of tiles, and values of other knobs, of configurations."""
        shape = [len(sizes) for sizes in self._entities.values()]
        digits = np.unravel_index(index, shape, order="F")
        return {name: of[digit] for (name, of), digit in zip(self._entities.items(), digits)}

    def block(self, sizes: Sizes) -> tuple[Array, Array]:
        """Threads of a block along z, y and x, shape (configurations, 3), and floats in its shared
        memory.
        """
        template, one = self.task.name, np.ones(len(sizes["tile_y"]), dtype=int)
        y, x = sizes["tile_y"], sizes["tile_x"]
        inner_y, inner_x = y[:, 1:].prod(axis=1), x[:, 1:].prod(axis=1)
        if template == "batch_matmul.cuda":
            shared = (inner_y + inner_x) * sizes["tile_k"][:, 1]
            return np.stack([one, y[:, 1], x[:, 1]], axis=1), shared
        if template == "conv2d_nchw_winograd.cuda":
            shared = (inner_y + inner_x) * sizes["tile_rc"][:, 1]
            return np.stack([sizes["tile_b"][:, 2], y[:, 2], x[:, 2]], axis=1), shared
        _, kernel, (stride_y, stride_x), *_ = self._arguments
        *_, height, width = kernel[1]
        channels = sizes["tile_f"][:, 1:].prod(axis=1)
        is_direct = template == "conv2d_nchw.cuda"
        window_y = sizes["tile_ry"][:, 1] if is_direct else height
        window_x = sizes["tile_rx"][:, 1] if is_direct else width
        image = ((inner_y - 1) * stride_y + window_y) * ((inner_x - 1) * stride_x + window_x)
        shared = (
            sizes["tile_rc"][:, 1] * (image + channels * window_y * window_x)
            if is_direct
            else channels * (image + window_y * window_x)
        )
        return np.stack([sizes["tile_f"][:, 2], y[:, 2], x[:, 2]], axis=1), shared

    def can_run(self, index: Array) -> Array:
        """Whether CUDA's limits let configurations run."""
        threads, shared = self.block(self.sizes(index))
        return (
            (threads.prod(axis=1) <= _MAX_THREADS)
            & (threads[:, 0] <= _MAX_THREADS_Z)
            & (4 * shared <= _MAX_SHARED)
        )

    def features(self, index: Array) -> Array:
        """What run times are predicted from: log2 of all sizes, of their products over tiles with
        as many parts, and of the threads and shared memory of a block.
        """
        sizes = self.sizes(index)
        threads, shared = self.block(sizes)
        logs = {name: np.log2(1 + of if of.shape[1] == 1 else of) for name, of in sizes.items()}
        parts = sorted({of.shape[1] for of in logs.values()} - {1})
        sums = [sum(of for of in logs.values() if of.shape[1] == number) for number in parts]
        block = np.log2(np.stack([threads.prod(axis=1), shared], axis=1))
        return np.concatenate([*logs.values(), *sums, block], axis=1)

    def training_set(self) -> tuple[Array, Array]:
        """Features and the logarithms of run times, of what ran."""
        ran = ~np.isnan(self.time)
        return self.features(self.index[ran]), np.log(self.time[ran])


class Regression:
    """The mean of boosted trees and of a Gaussian process, on standardized features."""

    def __init__(self, x: Array, y: Array) -> None:
        # an extra: what tuners can run is known without it
        from sklearn.ensemble import HistGradientBoostingRegressor
        from sklearn.gaussian_process import GaussianProcessRegressor
        from sklearn.gaussian_process.kernels import Matern, WhiteKernel

        self._varying = x.std(axis=0) > 0
        self._mean = x[:, self._varying].mean(axis=0)
        self._scale = x[:, self._varying].std(axis=0)
        z = self._standardize(x)
        self._trees = HistGradientBoostingRegressor(max_iter=300, random_state=0).fit(z, y)
        some = np.random.default_rng(0).permutation(len(z))[:_MAX_FIT]
        kernel = Matern(3.0, nu=1.5) + WhiteKernel(0.01)
        fitted = GaussianProcessRegressor(kernel, normalize_y=True).fit(z[some], y[some])
        self._process = GaussianProcessRegressor(
            fitted.kernel_, optimizer=None, normalize_y=True
        ).fit(z, y)
        del self._process.L_  # of the variance, which nobody asks for

    def predict(self, x: Array) -> Array:
        """Predictions at `x`, shape (n, features)."""
        z = self._standardize(x)
        return (self._trees.predict(z) + self._process.predict(z)) / 2

    def _standardize(self, x: Array) -> Array:
        return (x[:, self._varying] - self._mean) / self._scale


class Emulator:
    """Run times of a task's whole space, in the place of a `Landscape`.

    Parameters
    ----------
    pool : Pool
    model : Regression
        Of the pool's `training_set`.

    Attributes
    ----------
    optimum : float
        Milliseconds of the fastest configuration of the pool; runs may find faster ones.
    """

    def __init__(self, pool: Pool, model: Regression) -> None:
        self._pool, self._model = pool, model
        self._known: dict[int, tuple[float, int]] = {}
        self.optimum = float(np.nanmin(pool.time))

    def look_up(self, index: int) -> tuple[float, int]:
        """Milliseconds and error number of a configuration."""
        if index not in self._known:
            at = np.array([index])
            self._known[index] = (
                (float(np.exp(self._model.predict(self._pool.features(at))[0])), 0)
                if self._pool.can_run(at)[0]
                else (float("nan"), INSTANTIATION_ERROR)
            )
        return self._known[index]


@dataclass(frozen=True)
class Job(runs.Job):
    """One run of a tuner on an emulated task; `emulators` is the folder of fitted ones."""

    emulators: str = ""

    @property
    def landscape(self) -> str:
        """The task's label."""
        return f"{Path(self.path).stem}, emulated"

    @property
    def key(self) -> dict[str, Any]:
        """See `runs.Job`; the digest is the emulator's."""
        return {**super().key, "digest": _digest(self.path)}

    def prepare(self) -> tuple[Emulator, Task]:
        """The task and its emulator."""
        return _prepared(self.path, self.emulators)


@lru_cache(maxsize=16)
def _prepared(path: str, folder: str) -> tuple[Emulator, Task]:
    """A task and its emulator, which is fitted only once."""
    pool, file = Pool(Path(path)), Path(folder) / f"{Path(path).stem}-{_digest(path)}.pickle"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(pickle.dumps(Regression(*pool.training_set())))
    return Emulator(pool, pickle.loads(file.read_bytes())), pool.task


def _digest(path: str) -> str:
    """Identifies an emulator: its version, and the pool that it is fitted to."""
    return hashlib.sha256(Path(path).read_bytes() + bytes([_VERSION])).hexdigest()[:12]


def relative_to_best(
    results: Iterable[dict[str, Any]], all_runs: Iterable[dict[str, Any]]
) -> list[dict[str, Any]]:
    """The same results, with fractions of the best that any run has found on the task."""
    best: dict[str, float] = {}  # by digest
    for run in all_runs:
        most = max((fraction for _, fraction, _ in run["steps"]), default=0.0)
        best[run["digest"]] = max(most, best.get(run["digest"], 0.0))
    return [
        {
            **run,
            "steps": [
                (trial, fraction / best[run["digest"]], seconds)
                for trial, fraction, seconds in run["steps"]
            ],
        }
        for run in results
    ]


def quality(pool: Pool) -> list[str]:
    """How far to trust an emulator, in `QUALITY`'s columns: of folds that it was not fitted to."""
    x, y = pool.training_set()
    fold = np.random.default_rng(0).permutation(len(y)) % _FOLDS
    predicted = np.empty(len(y))
    for k in range(_FOLDS):
        predicted[fold == k] = Regression(x[fold != k], y[fold != k]).predict(x[fold == k])
    fast = y <= np.quantile(y, 0.2)
    can_run, refused = pool.can_run(pool.index), pool.error == INSTANTIATION_ERROR
    return [
        pool.name,
        f"{len(pool.task.config_space):,}",
        str(len(pool.index)),
        f"{1 - (y - predicted).var() / y.var():.3f}",
        f"{spearmanr(y, predicted).statistic:.3f}",
        f"{spearmanr(y[fast], predicted[fast]).statistic:.3f}",
        f"{(can_run[refused]).sum()} of {refused.sum()}",
        f"{(~can_run[pool.error == 0]).sum()} of {(pool.error == 0).sum()}",
    ]


QUALITY = [
    "task",
    "space",
    "pool",
    "R²",
    "rank correlation",
    "of the fastest fifth",
    "refused, emulated to run",
    "ran, emulated to fail",
]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Compare tuners on emulated GPU tasks.")
    parser.add_argument("pools", nargs="+", type=Path, help="files, or folders of them")
    parser.add_argument("--tuners", nargs="+", default=["OpEvo", "OpEvo-published", "XGB"])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--trials", type=int, default=256)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, default=Path("tuned") / "emulated")
    parser.add_argument(
        "--quality", action="store_true", help="cross-validate the emulators instead"
    )
    publish.add_option(parser)
    options = parser.parse_args(arguments)
    files = runs.find_landscapes(options.pools, parser)
    if options.quality:
        text = short = markdown.table(QUALITY, [quality(Pool(file)) for file in files])
    else:
        names = [runs.KNOBS if name == "XGB" else name for name in options.tuners]
        jobs = [
            Job(str(file), True, name, seed, options.trials, options.batch, str(options.out))
            for name in sorted(names, key=lambda name: name.startswith("XGB"))
            for file in files
            for seed in range(options.seeds)
        ]
        for job in jobs:
            job.prepare()  # not in several processes at once
        found = runs.run_all(jobs, options.out / "runs.jsonl", options.workers)
        results = relative_to_best(found, read(options.out / "runs.jsonl"))
        text, short = tables(results, options.tuners[:1]), summary(results)
        (options.out / "tables.md").write_text(text)
    publish.publish(options.publish, text, "emulated", arguments, summary=short)


if __name__ == "__main__":
    main()
