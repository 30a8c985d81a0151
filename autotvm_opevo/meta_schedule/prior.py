"""What searches know before their first trial: results of common layers, for CPUs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tvm.target import Target

from autotvm_opevo.search.source import Source
from autotvm_opevo.tuning.prior import read_prior

PRIOR = Path(__file__).with_name("cpu_prior.json")


def prior(target: Target) -> Sequence[Source]:
    """The sources that come with this package for a target, with knobs by role (see `DecisionSpace.by_role`)."""
    return read_prior(PRIOR)[""] if target.kind.name == "llvm" else ()
