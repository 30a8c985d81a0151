"""What tuners know before their first trial: results of common layers, for x86 CPUs with AVX2 and
with AVX-512.
"""

from __future__ import annotations

import platform
from collections.abc import Sequence
from pathlib import Path

import tvm
from tvm.autotvm.task import Task

from autotvm_opevo.search.transfer import Source
from autotvm_opevo.tuning.prior import read_prior

_X86 = {"x86_64", "amd64", "i386", "i686"}
# TVM's function, by its name in the registry: its module is not the same in all versions.
_LANES = "tvm.topi.x86.utils.get_simd_32bit_lanes"


def prior(task: Task) -> Sequence[Source]:
    """The sources that come with this package for a task: of the same template, for other shapes;
    none unless for an x86 CPU.
    """
    return read_prior(prior_file(task.target)).get(task.name, ()) if _is_x86(task.target) else ()


def prior_file(target: tvm.target.Target) -> Path:
    """The file for a CPU: what is best depends on how many values a vector has, and on the number
    of registers.
    """
    lanes = tvm.get_global_func(_LANES, allow_missing=True)
    with target:
        wide = lanes is not None and lanes() == 16
    return Path(__file__).with_name("avx512_prior.json" if wide else "avx2_prior.json")


def _is_x86(target: tvm.target.Target) -> bool:
    """Whether a target is an x86 CPU: TVM tunes other CPUs with some of its templates, too."""
    # older versions leave this machine's out
    triple = str(target.attrs.get("mtriple", "")) or platform.machine()
    return target.kind.name == "llvm" and triple.partition("-")[0].lower() in _X86
