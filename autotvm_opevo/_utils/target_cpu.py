"""Validate the CPU of a target, which LLVM does not."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches


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
