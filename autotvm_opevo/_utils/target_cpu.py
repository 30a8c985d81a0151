"""The CPU of a target: whether LLVM knows it, and whether this machine's processor has the
instructions that it implies.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path

# CPUs that every LLVM knows, the best first, and the instructions that their code may have, by
# LLVM's names.
_X86_64_V2 = {"sse3", "ssse3", "sse4.1", "sse4.2", "popcnt"}
_AVX2 = _X86_64_V2 | {"avx", "avx2", "fma", "f16c", "bmi", "bmi2", "lzcnt", "movbe"}
_AVX512 = {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
GENERIC_CPUS = {
    "skylake-avx512": _AVX2 | _AVX512 | {"adx"},
    "core-avx2": _AVX2,
    "sandybridge": _X86_64_V2 | {"avx"},
    "nehalem": _X86_64_V2,
}
# Other features are for tuning, or for intrinsics.
_INSTRUCTIONS = re.compile(
    r"s?sse[\d.a]+|avx[\w.-]*|amx[\w-]*|fma4?|f16c|xop|tbm|bmi2?|lzcnt|popcnt|movbe|adx|gfni"
    r"|neon|fullfp16|dotprod|bf16|i8mm|lse|sve2?"
)
# What processors report under another name than LLVM's, apart from dots, hyphens and underscores.
_ALIASES = {
    **{"sse3": "pni", "lzcnt": "abm", "bmi": "bmi1", "avx": "avx10"},  # avx1.0 on macOS
    **{"neon": "asimd", "fullfp16": "asimdhp", "dotprod": "asimddp", "lse": "atomics"},
}
_CPUINFO = Path("/proc/cpuinfo")
_SYSCTL = (
    "sysctl",
    "-i",
    "machdep.cpu.features",
    "machdep.cpu.leaf7_features",
    "machdep.cpu.extfeatures",
    "hw.optional",
)


def check_cpu(cpu: str, known: Sequence[str], llvm: int) -> None:
    """Raise if LLVM does not know a CPU: it would compile for a generic one and warn at every
    build.

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
    >>> check_cpu("znver9", ["generic", "znver1", "znver2"], 10)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: target's -mcpu must be a CPU that LLVM 10 knows, 'znver9' given: such as znver2 ...
    """
    if cpu and known and cpu not in known:
        alike = get_close_matches(cpu, known, n=3) or [
            name for name in ("core-avx2", "generic") if name in known
        ]
        such_as = f"such as {' or '.join(alike)}, or none" if alike else "another, or none"
        raise ValueError(
            f"target's -mcpu must be a CPU that LLVM {llvm} knows, {cpu!r} given: {such_as}"
        )


def candidate_cpus(system_cpu: str, features_of: Callable[[str], Iterable[str]]) -> list[str]:
    """CPUs whose code this processor says it can run, the best first; the last one is empty, for
    the architecture's baseline.

    Parameters
    ----------
    system_cpu : str
        LLVM's name for this processor, by family and model; ``"generic"`` or empty if it knows
        none.
    features_of : callable
        LLVM's features of a CPU that it knows. A hypervisor, the firmware or an emulator may hide
        some of them, and a virtual machine's model may be older than its features.

    Examples
    --------
    >>> candidate_cpus("", lambda cpu: [])[-1]
    ''
    """
    reported = reported_features()
    if not reported:
        return [""]
    generic = {name: needs for name, needs in GENERIC_CPUS.items() if not missing(needs)}
    implied = set(features_of(system_cpu)) if system_cpu not in ("", "generic") else set()
    is_best = (
        implied and not missing(implied) and all(needs <= implied for needs in generic.values())
    )
    return [*dict.fromkeys([*([system_cpu] if is_best else []), *generic]), ""]


def instructions(features: Iterable[str]) -> list[str]:
    """Of LLVM's features, the instructions that a compiler makes use of without being asked.

    >>> instructions(["fast-lzcnt", "avx512f", "avx2"])
    ['avx2', 'avx512f']
    """
    return [name for name in sorted(features) if _INSTRUCTIONS.fullmatch(name)]


def missing(features: Iterable[str]) -> list[str]:
    """Of LLVM's features, the instructions that this processor does not report; none if it reports
    nothing.

    >>> missing(["fast-lzcnt", "avx1024f"])
    ['avx1024f']
    """
    reported = reported_features()
    return [
        name
        for name in instructions(features)
        if reported and not {_plain(name), _ALIASES.get(name, "")} & reported
    ]


def is_wide(features: Iterable[str]) -> bool:
    """Whether code for a CPU may have vectors of 512 bits."""
    return "avx512f" in features


def reported_features() -> frozenset[str]:
    """What this processor says that it has, in lower case, without dots, hyphens and underscores;
    empty if that is unknown.
    """
    if _CPUINFO.exists():
        lines = (line.partition(":") for line in _CPUINFO.read_text().splitlines())
        words = next(
            (value for name, _, value in lines if name.strip() in ("flags", "Features")), ""
        ).split()
    elif sys.platform == "darwin":
        text = subprocess.run(_SYSCTL, capture_output=True, text=True, timeout=10).stdout
        words = re.findall(r"hw\.optional\.(?:arm\.FEAT_)?(\S+): 1", text)
        words += [
            word
            for line in text.splitlines()
            if line.startswith("machdep.cpu")
            for word in line.split()
        ]
    else:
        words = []
    return frozenset(map(_plain, words))


def _plain(feature: str) -> str:
    return re.sub("[._-]", "", feature).lower()
