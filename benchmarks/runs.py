"""Runs of tuners on landscapes: executed in parallel, stored in a file, and resumed from it."""

from __future__ import annotations

import hashlib
import os
from argparse import ArgumentParser
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from time import process_time
from typing import Any
from unittest import mock

from tqdm import tqdm
from tvm.autotvm.task import Task

from autotvm_opevo._utils import jsonl
from benchmarks import replay, tuners
from benchmarks.landscape import Landscape, load
from benchmarks.resume import read

# XGBTuner with the knobs' values as features, instead of features of the loops.
KNOBS = 'XGB feature_type="knob"'
HIDDEN = ", hidden"


@dataclass(frozen=True)
class Job:
    """One run of a tuner, with known or hidden constraints; see `benchmarks.replay`."""

    path: str
    hidden: bool
    tuner: str
    seed: int
    trials: int
    batch: int = 8

    @property
    def landscape(self) -> str:
        """The landscape's label."""
        return f"{Path(self.path).stem}{HIDDEN if self.hidden else ''}"

    @property
    def key(self) -> dict[str, Any]:
        """What identifies a result; the digest tells apart landscapes recorded again."""
        digest = hashlib.sha256(Path(self.path).read_bytes()).hexdigest()[:12]
        key = {
            "landscape": self.landscape,
            "digest": digest,
            "tuner": self.tuner,
            "seed": self.seed,
            "trials": self.trials,
        }
        return key if self.batch == 8 else {**key, "batch": self.batch}

    def prepare(self) -> tuple[Any, Task]:
        """What looks results up, as a `Landscape` does, and the task."""
        return _prepared(self.path, self.hidden)


def find_landscapes(paths: Iterable[Path], parser: ArgumentParser) -> list[Path]:
    """All landscape files among files and folders; an error of the command line for a folder that
    has none, which would be left out in silence.
    """
    files: list[Path] = []
    for path in paths:
        found = sorted(path.glob("*.npz")) if path.is_dir() else [path]
        if not found:
            parser.error(f"no landscapes (*.npz) in {path}")
        files += found
    return files


def jobs(
    files: Iterable[Path], names: Iterable[str], mode: str, seeds: int, trials: int, batch: int = 8
) -> list[Job]:
    """Every tuner on every landscape it supports, with every seed; XGBTuner, the slowest, comes
    last.
    """
    made = []
    for file in files:
        landscape = load(file)
        for hidden in modes(landscape, mode):
            task = replay.task(landscape, hidden)
            for name in names:
                if not tuners.handles(name, task):
                    continue
                if name == "XGB" and not replay.has_template(landscape):
                    name = KNOBS  # there are no loops to extract features from
                made += [Job(str(file), hidden, name, seed, trials, batch) for seed in range(seeds)]
    return sorted(made, key=lambda job: job.tuner.startswith("XGB"))


def modes(landscape: Landscape, mode: str) -> list[bool]:
    """Whether constraints are hidden: ``known`` is False, ``hidden`` True, ``both`` is one run of
    each.

    A complete landscape has no constraints; an AutoTVM template cannot know them.
    """
    if len(landscape) == landscape.size:
        return [False]
    if replay.has_template(landscape):
        return [True]
    return {"known": [False], "hidden": [True], "both": [False, True]}[mode]


def run(job: Job) -> dict[str, Any]:
    """Execute a job.

    Returns
    -------
    dict
        The job's key; ``measured``, the number of trials; ``seconds``, the tuner's own CPU time;
        and ``steps``, one ``(trial, fraction of the optimum, tuner's seconds so far)`` for each
        improvement.
    """
    landscape, task = job.prepare()
    steps: list[tuple[int, float, float]] = []
    measured = 0

    def note(_: Any, inputs: Any, results: Any) -> None:
        nonlocal measured
        for result in results:
            measured += 1
            fraction = landscape.optimum / 1e3 / result.costs[0] if result.error_no == 0 else 0.0
            if fraction > (steps[-1][1] if steps else 0.0):
                steps.append((measured, round(fraction, 7), round(own.proposed, 4)))

    with tuners.quiet(), tuners.in_process_features():
        tuner = tuners.make(job.tuner, task, job.seed)
        own = tuners.Stopwatch(tuner, process_time)
        # Droplet's default is 16: smaller batches miss most of its search directions
        batch = max(job.batch, 16) if job.tuner == "Droplet" else job.batch
        tuner.tune(job.trials, replay.measure_option(landscape, batch), callbacks=[note])
    return {**job.key, "measured": measured, "seconds": own.seconds, "steps": steps}


@lru_cache(maxsize=16)
def _prepared(path: str, hidden: bool) -> tuple[Landscape, Task]:
    landscape = load(path)
    return landscape, replay.task(landscape, hidden)


def run_all(jobs: Sequence[Job], file: Path, workers: int) -> list[dict[str, Any]]:
    """The results of all jobs; those missing from the file, which is created if needed, are run and
    appended as they finish.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    done = {_key(result): result for result in read(file)}
    missing = [job for job in jobs if _key(job.key) not in done]
    with (
        mock.patch.dict(os.environ, OMP_NUM_THREADS="1"),  # of each worker process
        ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool,
        tqdm(
            initial=len(jobs) - len(missing), total=len(jobs), unit="run", disable=None
        ) as progress,
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
    return [done[_key(job.key)] for job in jobs]


def _key(result: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(
        result.get(name) for name in ("landscape", "digest", "tuner", "seed", "trials", "batch")
    )
