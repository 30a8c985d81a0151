"""The target of this machine, whether it can run the code of another, and whether LLVM knows the
CPU of a target. Imports no TVM: it gets the one that is installed.
"""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Callable, Container, Iterable, Sequence
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any

from autotvm_opevo._utils.text import last_line
from autotvm_opevo._utils.timeouts import run_compiler

# Those that are there to compute; others may be a slow substitute on a machine without any.
_GPUS = ("cuda", "rocm", "metal")

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
    **{"sse3": "pni", "lzcnt": "abm", "bmi": "bmi1"},
    **{"neon": "asimd", "fullfp16": "asimdhp", "dotprod": "asimddp", "lse": "atomics"},
}
# What Linux does not report, and what a processor that has it reports.
_UNREPORTED = {
    **dict.fromkeys(["avxifma", "avxneconvert", "avxvnniint8", "avxvnniint16"], "avxvnni"),
    **dict.fromkeys(["amx-complex", "amx-fp16"], "amxtile"),
}
_CPUINFO = Path("/proc/cpuinfo")
# Architectures; a machine may run the code of all that match the same group.
_FAMILIES = re.compile(r"(x86_64$|amd64$|i[3-6]86$)|(arm|aarch64)|(riscv)")

# What compiles for CUDA.
_CUDA_NEEDS = (
    "; TVM 0.17 needs nvcc on the PATH, TVM 0.27 CUDA 13's toolkit, and nvcc or the package "
    "cuda-bindings"
)
# How to measure on another machine.
_ON_ANOTHER = "with an RPCRunner and a tracker (--rpc-tracker and --rpc-key on the command line)"


class ThisMachine:
    """What this machine can run of the code that the installed TVM compiles.

    `compile_kernel` compiles some kernel for a GPU's target.
    """

    def __init__(self, tvm: Any, compile_kernel: Callable[[Any], object]) -> None:
        self._tvm, self._compile = tvm, compile_kernel

    def target(self) -> Any:
        """The target of this machine's GPU if it has one, else of its CPU."""
        device = self._tvm.device
        gpu = next((kind for kind in _GPUS if device(kind, 0).exist), None)
        return self._tvm.target.Target.from_device(device(gpu, 0)) if gpu else self.cpu_target()

    def cpu_target(self) -> str:
        """The best target whose code this machine's CPU can run, by the features that its processor
        reports.

        LLVM names a processor by family and model, though a hypervisor, the firmware or an emulator
        may hide features that this name implies.
        """
        require_llvm(self._tvm)
        cpu = best_cpu(self._system_cpu(), self.cpu_features)
        return f"llvm -mcpu={cpu}" if cpu else "llvm"

    def check(self, target: Any) -> None:
        """Raise `ValueError` for a target that this machine lacks, or whose code it cannot run."""
        kind = target.kind.name
        if "gpu" in target.keys and not self._tvm.device(kind, 0).exist:
            raise ValueError(
                f"this machine has no {kind} device, or TVM cannot find its driver: measure on "
                f"another machine, {_ON_ANOTHER}, or tune for llvm"
            )
        if kind != "llvm":
            return
        machine, triple = platform.machine(), str(target.attrs.get("mtriple", ""))
        names = machine, triple.partition("-")[0]
        here, there = (_FAMILIES.match(name.lower()) for name in names)
        if here and there and here.lastindex != there.lastindex:
            raise ValueError(
                f"this machine, {machine}, cannot run code for {triple}: measure on another one, "
                f"{_ON_ANOTHER}"
            )
        if self._missing(target):
            raise self.cannot_run(target)

    def check_compiler(self, target: Any) -> None:
        """Raise `RuntimeError` if TVM cannot compile for a GPU's target here: every trial would
        fail, and stay a failure in the log.
        """
        if "gpu" not in target.keys:
            return
        try:
            run_compiler(partial(self._compile, target), f"compiling a first kernel for {target}")
        except (ImportError, OSError, RuntimeError, ValueError) as error:
            needs = _CUDA_NEEDS if target.kind.name == "cuda" else ""
            why = last_line(str(error.__cause__ or error))
            raise RuntimeError(
                f"TVM cannot compile for {target}: {why}{needs}; or tune for llvm"
            ) from error

    def cannot_run(self, target: Any) -> ValueError:
        """An error that names what this machine lacks for a target, and another one to try."""
        if lacking := self._missing(target):
            why = f"it lacks {', '.join(lacking)}; {self.cpu_target()} works"
        else:  # of what the processor reports, something does not work
            has = {*instructions(self._features(target))}
            fewer = (f"llvm -mcpu={cpu}" for cpu, needs in GENERIC_CPUS.items() if needs < has)
            why = f"a first kernel failed, which reads 256 MB; try {next(fewer, 'llvm')}"
        return ValueError(f"target must be one whose code this machine can run: {why}")

    def cpu_features(self, cpu: str) -> frozenset[str]:
        """LLVM's features of a CPU; none if this TVM cannot tell."""
        return self._features(self._tvm.target.Target({"kind": "llvm", "mcpu": cpu}))

    def _system_cpu(self) -> str:
        """LLVM's name of this processor; empty if this TVM cannot tell."""
        return str(getattr(self._tvm.target.codegen, "llvm_get_system_cpu", str)())

    def _missing(self, target: Any) -> list[str]:
        """The instructions of a target that this processor has not."""
        name = self._system_cpu()
        return missing(self._features(target), self.cpu_features(name) if name else ())

    def _features(self, target: Any) -> frozenset[str]:
        get = getattr(self._tvm.target.codegen, "llvm_get_cpu_features", None)
        return frozenset(map(str, get(target))) if get else frozenset()


def best_cpu(system_cpu: str, features_of: Callable[[str], Iterable[str]]) -> str:
    """The best CPU, by LLVM's name, whose code this processor says it can run; empty for the
    architecture's baseline.

    `system_cpu` is LLVM's name for this processor, by family and model; ``"generic"`` or empty if
    it knows none. A virtual machine may hide features of it, or have more than its model.
    """
    named = "" if system_cpu == "generic" else system_cpu
    if not reported_features():
        return named if sys.platform == "darwin" else ""  # where LLVM asks the system
    generic = [name for name, needs in GENERIC_CPUS.items() if not missing(needs)]
    implied = set(features_of(named)) if named else set()
    has_all = all(GENERIC_CPUS[name] <= implied for name in generic)
    is_best = implied and not missing(implied, implied) and has_all
    return named if is_best else next(iter(generic), "")


def instructions(features: Iterable[str]) -> list[str]:
    """Of LLVM's features, the instructions that a compiler makes use of without being asked.

    >>> instructions(["fast-lzcnt", "avx512f", "avx2"])
    ['avx2', 'avx512f']
    """
    return [name for name in sorted(features) if _INSTRUCTIONS.fullmatch(name)]


def missing(features: Iterable[str], implied: Container[str] = ()) -> list[str]:
    """Of LLVM's features, the instructions that this processor does not report; none if it reports
    nothing. What Linux never reports is taken as `implied` by the processor's name.

    >>> missing(["fast-lzcnt", "avx1024f"])
    ['avx1024f']
    """
    reported = reported_features()
    hidden = {name for name, sign in _UNREPORTED.items() if name in implied and sign in reported}
    return [
        name
        for name in instructions(features)
        if reported and name not in hidden and not {_plain(name), _ALIASES.get(name, "")} & reported
    ]


def reported_features() -> frozenset[str]:
    """What Linux says this processor has, in plain lower case; empty if unknown."""
    cpu = cpuinfo()
    return frozenset(map(_plain, (cpu.get("flags") or cpu.get("Features", "")).split()))


def _plain(feature: str) -> str:
    return re.sub("[._-]", "", feature).lower()


def cpuinfo() -> dict[str, str]:
    """What Linux says of the first processor; empty elsewhere."""
    lines = _CPUINFO.read_text().splitlines() if _CPUINFO.exists() else []
    fields = [line.partition(":") for line in lines]
    return {name.strip(): value.strip() for name, _, value in reversed(fields)}


def require_llvm(tvm: Any) -> None:
    """Raise `RuntimeError` if a TVM cannot compile for a CPU."""
    if tvm.get_global_func("target.llvm_version_major", True) is None:
        raise RuntimeError(
            "this TVM was built without LLVM: build it with USE_LLVM=ON to tune for a CPU"
        )


def check_llvm_cpu(tvm: Any, target: Any) -> None:
    """Raise `ValueError` for a target whose CPU the LLVM of a TVM does not know."""
    require_llvm(tvm)
    codegen = tvm.target.codegen
    if hasattr(codegen, "llvm_get_cpu_archlist"):  # not before TVM 0.14
        # with its CPU, TVM would warn of it here
        options = {name: value for name, value in dict(target.export()).items() if name != "mcpu"}
        known = [str(name) for name in codegen.llvm_get_cpu_archlist(tvm.target.Target(options))]
        check_cpu(str(target.attrs.get("mcpu", "")), known, codegen.llvm_version_major())


def check_cpu(cpu: str, known: Sequence[str], llvm: int) -> None:
    """Raise `ValueError` if a version of LLVM does not know a CPU: it would compile for a generic
    one and warn at every build.

    `known` are all of the target's architecture; empty if they cannot be listed.
    """
    if cpu and known and cpu not in known:
        common = [name for name in ("core-avx2", "generic") if name in known]
        alike = get_close_matches(cpu, known, n=3) or common
        such_as = f"such as {' or '.join(alike)}, or none" if alike else "another, or none"
        raise ValueError(
            f"target's -mcpu must be a CPU that LLVM {llvm} knows, {cpu!r} given: {such_as}"
        )
