"""A target for tests of what is computed: LLVM would optimize for most of the time of a build."""

import tvm

from benchmarks import workloads


def cpu(cores=2):
    """A CPU with AVX2, as `workloads.cpu`."""
    return tvm.target.Target({**workloads.cpu(cores).export(), "opt-level": 0})
