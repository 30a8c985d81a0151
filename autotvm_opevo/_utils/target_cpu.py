"""The CPU of a target: this machine's, and whether LLVM knows it, which LLVM itself does not check."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

# CPUs that every LLVM knows, the best first, and the flags in /proc/cpuinfo that they imply.
_LIKE = {"skylake-avx512": {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}, "core-avx2": {"avx2", "fma"}}
_CPUINFO = Path("/proc/cpuinfo")


def check_cpu(cpu: str, known: Sequence[str], llvm: int) -> None:
    """Raise if LLVM does not know a CPU: it would compile for a generic one and warn at every build.

    Parameters
    ----------
    cpu : str
        The value of a target's ``-mcpu``; empty if it has none.
    known : sequence of str
        All CPUs of the target's architecture that this LLVM knows; empty if they cannot be listed.
    llvm : int
        The major version of LLVM.

    Raises
    ------
    ValueError
        If `cpu` is not in `known`; the message suggests similar names.

    Examples
    --------
    >>> check_cpu("znver9", ["generic", "core-avx2", "znver1", "znver2"], 10)
    Traceback (most recent call last):
    ValueError: target's -mcpu must be a CPU that LLVM 10 knows, 'znver9' given: such as znver2 or znver1, or none
    """
    if cpu and known and cpu not in known:
        alike = get_close_matches(cpu, known, n=3) or [name for name in ("core-avx2", "generic") if name in known]
        such_as = f"such as {' or '.join(alike)}, or none" if alike else "another, or none"
        raise ValueError(f"target's -mcpu must be a CPU that LLVM {llvm} knows, {cpu!r} given: {such_as}")


def this_cpu(system_cpu: str) -> str:
    """Name this machine's CPU, or the closest one that every LLVM knows if it is newer than this one; empty if there is none.

    Parameters
    ----------
    system_cpu : str
        LLVM's name for it; ``"generic"`` or empty if it knows none, and would compile without vector instructions.

    Examples
    --------
    >>> this_cpu("znver3")
    'znver3'
    """
    if system_cpu not in ("", "generic"):
        return system_cpu
    flags = set(_CPUINFO.read_text().split()) if _CPUINFO.exists() else set()
    return next((name for name, needs in _LIKE.items() if needs <= flags), "")
