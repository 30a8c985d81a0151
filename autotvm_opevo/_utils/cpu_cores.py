"""Cores of this machine that TVM leaves idle: on x86 it takes every second one for a hyper-thread, also where there are none."""

from __future__ import annotations

import os
from pathlib import Path

_SIBLINGS = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"
# Those that this process may use; known at import, since TVM binds the main thread to one of them when it runs a kernel.
_CPUS = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()


def physical_cores() -> int:
    """Number of cores that this process may use, hyper-threads not counted; 0 if unknown."""
    try:
        return len({Path(_SIBLINGS.format(cpu)).read_text() for cpu in _CPUS})
    except OSError:
        return 0


def idle_cores(threads: int) -> str:
    """Say how to use all cores, if TVM runs kernels in fewer threads than there are; empty otherwise.

    Examples
    --------
    >>> idle_cores(threads=physical_cores())
    ''
    """
    cores = physical_cores()
    if not 0 < threads < cores:
        return ""
    uses_all = f"TVM_NUM_THREADS={cores} uses all, here and where the network is deployed"
    return f"TVM runs kernels on {threads} of {cores} cores: {uses_all}"
