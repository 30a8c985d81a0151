"""Runs of tuners on landscapes: made in parallel, kept in a file, gone on with when they were stopped."""

from __future__ import annotations

import json
import logging
import os
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

os.environ.setdefault("TOPHUB_LOCATION", "NONE")  # TVM would look for pre-tuned schedules on the network

import numpy as np
from tqdm import tqdm

from benchmarks import replay, tuners
from benchmarks.landscape import Landscape, load

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
    def key(self) -> tuple[str, str, int, int]:
        return self.landscape, self.tuner, self.seed, self.trials


def run(job: Job) -> dict[str, Any]:
    """The steps of the best so far, as a fraction of the optimum, and the seconds that the tuner took."""
    logging.getLogger("autotvm").setLevel(logging.ERROR)
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

    answer: dict[str, Any] = {"landscape": job.landscape, "tuner": job.tuner, "seed": job.seed, "trials": job.trials}
    with tuners.features_in_this_process():
        try:
            tuner = tuners.make(job.tuner, task, job.seed, lowered=replay.has_template(landscape))
        except ValueError:
            return {**answer, "refused": True}
        start = time.perf_counter()
        tuner.tune(n_trial=job.trials, measure_option=replay.measure_option(landscape), callbacks=[note])
    return {**answer, "measured": measured, "seconds": time.perf_counter() - start, "steps": steps}


@lru_cache(maxsize=4)
def _prepared(path: str, blind: bool) -> tuple[Landscape, Any]:
    landscape = load(path)
    return landscape, replay.task(landscape, blind)


def run_all(jobs: list[Job], file: Path, workers: int) -> list[dict[str, Any]]:
    """All runs: those that are in the file already, and the others, which are added to it as they finish."""
    done = {(r["landscape"], r["tuner"], r["seed"], r["trials"]): r for r in _read(file)}
    missing = [job for job in jobs if job.key not in done]
    # One task and one landscape after another: a worker keeps what it has prepared.
    os.environ["OMP_NUM_THREADS"] = "1"
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool, open(file, "a") as log:
        for result in tqdm(pool.map(run, missing), initial=len(jobs) - len(missing), total=len(jobs), unit="run", disable=None):
            log.write(json.dumps(result) + "\n")
            log.flush()
            done[result["landscape"], result["tuner"], result["seed"], result["trials"]] = result
    return [done[job.key] for job in jobs]


def _read(file: Path) -> Iterator[dict[str, Any]]:
    for line in file.read_text().splitlines() if file.exists() else ():
        try:
            yield json.loads(line)
        except ValueError:  # torn
            continue


def curve(result: dict[str, Any]) -> Array:
    """The best so far after every trial, shape (trials,)."""
    best = np.zeros(result["trials"])
    for trial, found in result["steps"]:
        best[trial - 1 :] = found
    return best


Curves = dict[str, dict[str, Array]]  # by landscape and tuner, shape (seeds, trials)


def curves(results: Iterable[dict[str, Any]]) -> Curves:
    """The runs that were not refused."""
    grouped: dict[str, dict[str, list[Array]]] = defaultdict(lambda: defaultdict(list))
    for result in results:
        if not result.get("refused"):
            grouped[result["landscape"]][result["tuner"]].append(curve(result))
    return {landscape: {tuner: np.array(runs) for tuner, runs in by.items()} for landscape, by in grouped.items()}
