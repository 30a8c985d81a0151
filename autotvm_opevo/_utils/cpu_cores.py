"""Cores that this process may use, and those of them that TVM leaves idle: on x86 it takes every
second one for a hyper-thread, also where there are none.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path, PurePosixPath

from autotvm_opevo._utils.affinity import CPUS as _CPUS
from autotvm_opevo._utils.affinity import MAY_BE_BOUND as _MAY_BE_BOUND
from autotvm_opevo._utils.text import pluralize

_SIBLINGS = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"
# The fast cores of Intel's CPUs that have two kinds, and how fast each is of ARM's.
_FAST = Path("/sys/devices/cpu_core/cpus")
_CAPACITY = "/sys/devices/system/cpu/cpu{}/cpu_capacity"
_MAX_FREQUENCY = "/sys/devices/system/cpu/cpu{}/cpufreq/cpuinfo_max_freq"
_CGROUPS, _OWN_CGROUPS = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
# Both count for TVM, the first one first.
_VARIABLES = ("TVM_NUM_THREADS", "OMP_NUM_THREADS")
# Whether TVM binds each thread to a CPU.
_BINDING = "TVM_BIND_THREADS"

logger = logging.getLogger(__name__)


def affinity() -> set[int]:
    """CPUs that this process may use, whatever TVM binds its threads to; empty if unknown."""
    return set(_CPUS)


def physical_cores() -> int:
    """Number of cores that this process may use, by CPU affinity and its control groups' quotas, of
    which whole cores count: threads that share a part of one wait for each other. 0 if unknown.

    The slowest kind of several does not count: TVM gives all threads equal parts of a loop.
    """
    try:
        return _within_quotas(_count_cores(_without_slow(_CPUS)))
    except OSError:
        return 0


def usable_cpus() -> int:
    """Number of CPUs, hyper-threads among them, that this process may use, by CPU affinity and its
    control groups' quotas, of which whole ones count.

    >>> usable_cpus() >= 1
    True
    """
    return _within_quotas(len(_CPUS) or os.cpu_count() or 1)


def use_all_cores() -> str:
    """Let TVM run kernels on all physical cores that this process may use, but the slowest kind of
    several, unless ``TVM_NUM_THREADS`` or ``OMP_NUM_THREADS`` is set.

    Call it before TVM runs anything in this process: it sets ``TVM_NUM_THREADS``, which TVM reads
    once, in the environment of this process and of those that it starts. Where they may use only a
    part of the machine, or its first CPUs are hyper-threads of the same cores, it also sets
    ``TVM_BIND_THREADS=0``, unless that is set: TVM would bind its threads to the machine's first
    CPUs.

    Returns
    -------
    str
        What was done, in a sentence; empty if nothing was.

    Examples
    --------
    >>> from autotvm_opevo import use_all_cores
    >>> _ = use_all_cores()
    """
    cores = physical_cores()
    done = []
    if cores and not any(os.environ.get(name) for name in _VARIABLES):
        os.environ[_VARIABLES[0]] = str(cores)
        done.append(
            f"TVM_NUM_THREADS={cores}: kernels run on all fast cores of this machine that this "
            "process may use"
        )
    if cores and not (os.environ.get(_BINDING) or _is_bound_well(cores)):
        os.environ[_BINDING] = "0"
        done.append(f"{_BINDING}=0: kernels are not bound to the machine's first CPUs")
    return "; ".join(done)


def thread_mismatch(threads: int) -> str:
    """Say how to use each core once, if TVM runs kernels in fewer threads than there are cores, or
    in more which nobody chose, as where a control group has a quota; empty otherwise.

    >>> thread_mismatch(threads=physical_cores())
    ''
    """
    cores = physical_cores()
    chosen = [name for name in _VARIABLES if os.environ.get(name)]
    if threads < 1 or cores in (0, threads) or (threads > cores and chosen):
        return ""
    ran = f"TVM runs kernels in {pluralize(threads, 'thread')} on {pluralize(cores, 'core')}"
    frequencies = [_max_frequency(cpu) for cpu in range(os.cpu_count() or 1)]
    asked = os.environ[chosen[0]] if chosen else ""
    if threads == frequencies.count(max(frequencies)) < len(frequencies):
        only = "it takes only those of the highest frequency, whatever TVM_NUM_THREADS says"
        return "" if asked == str(threads) else f"{ran}: {only}"
    how = "which autotvm_opevo.use_all_cores() sets, as this package's commands do"
    if chosen:
        how = f"instead of {chosen[0]}={asked}"
    return f"{ran}: TVM_NUM_THREADS={cores} uses each once, {how}; deploy with the same"


@cache
def warn_of_thread_mismatch(threads: int) -> None:
    """Log a warning, once a process, of what `thread_mismatch` says, or if this process may use one
    CPU only, to which TVM may have bound it.
    """
    if _MAY_BE_BOUND and len(_CPUS) == 1 < len(_cpus_of_parent()):
        logger.warning(
            "this process may use CPU %d only: if TVM has bound it to that, import autotvm_opevo "
            "before TVM runs anything",
            *_CPUS,
        )
    elif mismatch := thread_mismatch(threads):
        logger.warning(mismatch)


def _cpus_of_parent() -> set[int]:
    with suppress(OSError):
        return os.sched_getaffinity(os.getppid())
    return set()


def _within_quotas(cpus: int) -> int:
    return min([cpus, *(max(1, int(quota)) for quota in _quotas())])


def _without_slow(cpus: set[int]) -> set[int]:
    """Without those of the slowest kind of cores, if there are others."""
    with suppress(OSError, ValueError):
        fast = set()
        for part in _FAST.read_text().split(","):  # such as 0-7,16
            first, _, last = part.partition("-")
            fast |= {*range(int(first), int(last or first) + 1)}
        return cpus & fast or cpus
    with suppress(OSError, ValueError):
        capacities = {cpu: int(Path(_CAPACITY.format(cpu)).read_text()) for cpu in cpus}
        return {cpu for cpu in cpus if capacities[cpu] > min(capacities.values())} or cpus
    return cpus


def _count_cores(cpus: Iterable[int]) -> int:
    return len({Path(_SIBLINGS.format(cpu)).read_text() for cpu in cpus})


def _is_bound_well(threads: int) -> bool:
    """Whether this process may use the whole machine, and the CPUs to which TVM binds so many
    threads belong to different cores.
    """
    cpus = os.cpu_count() or 0
    if usable_cpus() < cpus:
        return False
    first = sorted(range(cpus), key=_max_frequency, reverse=True)[:threads]
    return _count_cores(_CPUS.intersection(first)) == threads


def _max_frequency(cpu: int) -> int:
    """By which TVM sorts CPUs."""
    with suppress(OSError, ValueError):
        return int(Path(_MAX_FREQUENCY.format(cpu)).read_text())
    return 0


def _quotas() -> Iterator[float]:
    """CPUs that this process's control groups, of versions 1 and 2, may use at most."""
    with suppress(OSError):
        for line in _OWN_CGROUPS.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            group = PurePosixPath(path.lstrip("/"))
            for folder in [group, *group.parents]:
                with suppress(OSError, ValueError):  # no quota, or another name space's path
                    files = []
                    if not controllers:
                        files = [_CGROUPS / folder / "cpu.max"]
                    elif "cpu" in controllers.split(","):
                        cpu = _CGROUPS / "cpu" / folder
                        files = [cpu / "cpu.cfs_quota_us", cpu / "cpu.cfs_period_us"]
                    quota, period = " ".join(file.read_text() for file in files).split()
                    if float(quota) > 0:
                        yield float(quota) / float(period)
