"""The target of tests for outputs: LLVM's optimizations take most of the time of a build."""

import tvm

from benchmarks import workloads


def cpu():
    """A CPU with AVX2, as `workloads.cpu`."""
    return tvm.target.Target({**workloads.cpu().export(), "opt-level": 0})
