"""Names of CPUs, which LLVM does not insist on knowing. Knows no TVM."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches


def check_cpu(cpu: str, known: Sequence[str], llvm: int) -> None:
    """Refuse a CPU that LLVM would take its generic one for, with a complaint at every build.

    Parameters
    ----------
    cpu : str
        What a target's ``-mcpu`` says; empty for nothing.
    known : sequence of str
        All that this LLVM knows of the target's architecture; empty where nobody can say.
    llvm : int
        Its version.

    Raises
    ------
    ValueError
        If it does not know that one; says which are like it.

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
