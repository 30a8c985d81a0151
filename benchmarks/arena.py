"""Runs of tuners on landscapes: made in parallel, kept in a file, gone on with when they were stopped."""

from __future__ import annotations

import hashlib
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm
from tvm.autotvm.task import Task

from benchmarks import jsonl, replay, tuners
from benchmarks.landscape import Landscape, load

# XGBTuner where it sees the knobs' values instead of loops.
KNOBS = 'XGB feature_type="knob"'

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Job:
    """One run."""

    path: str
    blind: bool
    tuner: str
    seed: int
    trials: int

    @property
    def landscape(self) -> str:
        return f"{Path(self.path).stem}{', blind' if self.blind else ''}"

    @property
    def about(self) -> dict[str, Any]:
        """What a result is known by; a landscape that was recorded again is another."""
        digest = hashlib.sha256(Path(self.path).read_bytes()).hexdigest()[:12]
        return {"landscape": self.landscape, "digest": digest, "tuner": self.tuner, "seed": self.seed, "trials": self.trials}


def jobs(files: Iterable[Path], names: Iterable[str], mode: str, seeds: int, trials: int) -> list[Job]:
    """Every tuner on every landscape that it can search, from every seed; XGBTuner last, since it takes longest."""
    made = []
    for file in files:
        landscape = load(file)
        for blind in modes(landscape, mode):
            task = replay.task(landscape, blind)
            for name in names:
                if not tuners.handles(name, task):
                    continue
                if name == "XGB" and not replay.has_template(landscape):
                    name = KNOBS  # there are no loops to take features from
                made += [Job(str(file), blind, name, seed, trials) for seed in range(seeds)]
    return sorted(made, key=lambda job: job.tuner.startswith("XGB"))


def modes(landscape: Landscape, mode: str) -> list[bool]:
    """Blind or not. Where all of the space is tabulated there is no difference, and a template always proposes all of it."""
    if len(landscape) == landscape.size:
        return [False]
    if replay.has_template(landscape):
        return [True]
    return {"known": [False], "blind": [True], "both": [False, True]}[mode]


def run(job: Job) -> dict[str, Any]:
    """The steps of the best so far, as a fraction of the optimum, and the seconds that the tuner took."""
    landscape, task = _prepared(job.path, job.blind)
    steps: list[tuple[int, float]] = []
    measured = 0

    def note(_: Any, inputs: Any, results: Any) -> None:
        nonlocal measured
        for result in results:
            measured += 1
            found = landscape.optimum / 1e3 / result.costs[0] if result.error_no == 0 else 0.0
            if found > (steps[-1][1] if steps else 0.0):
                steps.append((measured, found))

    with tuners.quiet(), tuners.features_in_this_process():
        tuner = tuners.make(job.tuner, task, job.seed)
        own = tuners.Stopwatch(tuner)
        tuner.tune(job.trials, replay.measure_option(landscape, tuners.batch(job.tuner)), callbacks=[note])
    return {**job.about, "measured": measured, "seconds": own.seconds, "steps": steps}


@lru_cache(maxsize=4)
def _prepared(path: str, blind: bool) -> tuple[Landscape, Task]:
    landscape = load(path)
    return landscape, replay.task(landscape, blind)


def run_all(jobs: list[Job], file: Path, workers: int) -> list[dict[str, Any]]:
    """All runs: those that are in the file already, and the others, which are added to it as they finish."""
    done = {_key(result): result for result in jsonl.read(file)}
    missing = [job for job in jobs if _key(job.about) not in done]
    with (
        one_core_each(),
        ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool,
        tqdm(initial=len(jobs) - len(missing), total=len(jobs), unit="run", disable=None) as progress,
    ):
        try:
            for future in as_completed([pool.submit(run, job) for job in missing]):
                result = future.result()
                jsonl.append(file, result)
                done[_key(result)] = result
                progress.update()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return [done[_key(job.about)] for job in jobs]


def _key(result: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(result.get(name) for name in ("landscape", "digest", "tuner", "seed", "trials"))


@contextmanager
def one_core_each() -> Iterator[None]:
    """Processes that start in here do not share their work out among threads."""
    before = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["OMP_NUM_THREADS"]
        else:
            os.environ["OMP_NUM_THREADS"] = before


def curve(result: dict[str, Any]) -> Array:
    """The best so far after every trial, shape (trials,)."""
    best = np.zeros(result["trials"])
    for trial, found in result["steps"]:
        best[trial - 1 :] = found
    return best


Curves = dict[str, dict[str, Array]]  # by landscape and tuner, shape (seeds, trials)


def curves(results: Iterable[dict[str, Any]]) -> Curves:
    """The best so far of all runs."""
    grouped: dict[str, dict[str, list[Array]]] = defaultdict(lambda: defaultdict(list))
    for result in results:
        grouped[result["landscape"]][result["tuner"]].append(curve(result))
    return {landscape: {tuner: np.array(runs) for tuner, runs in by.items()} for landscape, by in grouped.items()}
