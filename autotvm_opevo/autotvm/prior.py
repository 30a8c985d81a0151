"""What tuners know before their first trial: results of common layers, for CPUs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tvm.autotvm.task import Task

from autotvm_opevo.search.source import Source
from autotvm_opevo.tuning.prior import read_prior

PRIOR = Path(__file__).with_name("cpu_prior.json")


def prior(task: Task) -> Sequence[Source]:
    """The sources that come with this package for a task: of the same template, for other shapes."""
    return read_prior(PRIOR).get(task.name, ()) if task.target.kind.name == "llvm" else ()
