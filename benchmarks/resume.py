"""Results in a file with one JSON object per line, from which a stopped benchmark resumes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from autotvm_opevo._utils import jsonl

Result = dict[str, Any]


def read(file: Path) -> list[Result]:
    """The results in a file, which need not exist; malformed lines are skipped."""
    lines = file.read_bytes().splitlines() if file.exists() else []
    return [value for _, value in jsonl.read(lines) if value is not jsonl.MALFORMED]


def run_missing(
    jobs: Sequence[Result], run: Callable[[Result], Result], file: Path, unit: str
) -> list[Result]:
    """The results of all jobs; those missing from the file are run in turn, and appended.

    Parameters
    ----------
    jobs : sequence of dict
        Each job is part of its result, and identifies it.
    run : callable
        Returns the rest of a job's result.
    file : Path
        Created if missing, with its folder.
    unit : str
        What the progress bar calls a job.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    done = read(file)
    missing = [job for job in jobs if not any(job.items() <= result.items() for result in done)]
    for job in tqdm(
        missing, initial=len(jobs) - len(missing), total=len(jobs), unit=unit, disable=None
    ):
        result = {**job, **run(job)}
        jsonl.append(file, result)
        done.append(result)
    return [next(result for result in done if job.items() <= result.items()) for job in jobs]


def in_turn(names: Sequence[str], seed: int) -> list[str]:
    """The names in order, from another one on for each seed, so that none is always first."""
    first = seed % len(names)
    return [*names[first:], *names[:first]]
