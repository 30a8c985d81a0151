"""What searches know before their first trial: results of common layers, recorded with AVX2 and
with AVX-512.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tvm.target import Target
from tvm.target.codegen import target_has_features

from autotvm_opevo.search.transfer import Source
from autotvm_opevo.tuning.prior import read_prior


def prior(target: Target) -> Sequence[Source]:
    """The sources that come with this package for a CPU, with knobs by role (see
    `DecisionSpace.by_role`).
    """
    return read_prior(prior_file(target))[""] if target.kind.name == "llvm" else ()


def prior_file(target: Target) -> Path:
    """The file for a CPU: what is best depends on how many values a vector has, and on the number
    of registers.

    AVX2's is the nearest to narrower vectors.
    """
    wide = target_has_features("avx512f", target)
    return Path(__file__).with_name("avx512_prior.json" if wide else "avx2_prior.json")
