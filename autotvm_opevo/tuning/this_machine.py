"""The target of this machine, whether it can run the code of another, and whether LLVM knows the
CPU of a target. Imports no TVM: it gets the one that is installed.
"""

from __future__ import annotations

import hashlib
import logging
import os
import platform
import re
import subprocess
import sys
from collections.abc import Callable, Container, Iterable, Sequence
from contextlib import suppress
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any

from autotvm_opevo._utils import jsonl
from autotvm_opevo._utils.text import last_line
from autotvm_opevo._utils.timeouts import run_compiler

# Those that are there to compute; others may be a slow substitute on a machine without any.
_GPUS = ("cuda", "rocm", "metal")
# How fast a matrix product with vectors of 512 bits has to be, relative to 256. Where a processor
# computes with halves of them, a product gains little. Networks gain more, from twice as many
# registers and half as many instructions.
_WIDE_AT_LEAST = 0.9
# How often two are timed, interleaved; the best of each counts.
_ROUNDS = 3

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
# What Linux does not report, and what a processor that has it reports.
_UNREPORTED = {
    **dict.fromkeys(["avxifma", "avxneconvert", "avxvnniint8", "avxvnniint16"], "avxvnni"),
    **dict.fromkeys(["amx-complex", "amx-fp16"], "amxtile"),
}
_CPUINFO = Path("/proc/cpuinfo")
_REPORTS = (f"machdep.cpu.{kind}features" for kind in ("", "leaf7_", "ext"))
# Not every PATH has its folder, such as that of cron.
_SYSCTL = ("/usr/sbin/sysctl", "-i", *_REPORTS, "hw.optional")
# Architectures; a machine may run the code of all that match the same group.
_FAMILIES = re.compile(r"(x86_64$|amd64$|i[3-6]86$)|(arm|aarch64)|(riscv)")

# What compiles for CUDA.
_CUDA_NEEDS = (
    "; TVM 0.17 needs nvcc on the PATH, TVM 0.27 CUDA 13's toolkit, and nvcc or the package "
    "cuda-bindings"
)
# How to measure on another machine.
_ON_ANOTHER = "with an RPCRunner and a tracker (--rpc-tracker and --rpc-key on the command line)"

logger = logging.getLogger(__name__)


class ThisMachine:
    """What this machine can run of the code that the installed TVM compiles.

    `measure_flops` takes a CPU's target, and returns the operations per second of a matrix product
    with its code, or raises `ChildProcessError` if this machine cannot run it. `compile_kernel`
    compiles some kernel for a GPU's target.
    """

    def __init__(
        self,
        tvm: Any,
        measure_flops: Callable[[str], float],
        compile_kernel: Callable[[Any], object],
    ) -> None:
        self._tvm, self._measure_flops, self._compile = tvm, measure_flops, compile_kernel

    def target(self) -> Any:
        """The target of this machine's GPU if it has one, else of its CPU."""
        device = self._tvm.device
        gpu = next((kind for kind in _GPUS if device(kind, 0).exist), None)
        return self._tvm.target.Target.from_device(device(gpu, 0)) if gpu else self.cpu_target()

    def cpu_target(self) -> str:
        """The fastest target whose code this machine's CPU has run: a kernel of each that its
        processor's features allow.

        LLVM names a processor by family and model, though a hypervisor, the firmware or an emulator
        may hide features that this name implies. What was found is remembered in the user's cache
        folder, for this processor and this TVM.
        """
        require_llvm(self._tvm)
        system_cpu = self._system_cpu()
        version = getattr(self._tvm.target.codegen, "llvm_version_major", int)()
        model = cpuinfo().get("model name", platform.processor())
        about = f"{platform.machine()} {model} {sorted(reported_features())} {_WIDE_AT_LEAST}"
        digest = hashlib.sha256(about.encode()).hexdigest()[:16]
        machine = [self._tvm.__version__, version, system_cpu, digest]
        if known := _remembered(machine):
            return known
        flops: dict[str, float] = {}
        for cpu in candidate_cpus(system_cpu, self.cpu_features):
            wide = bool(cpu) and "avx512f" in self.cpu_features(cpu)  # vectors of 512 bits
            if wide and flops:
                continue
            try:
                flops[cpu] = self._measure_flops(_target(cpu))
            except ChildProcessError:
                why = "though its processor reports the features: trying one with fewer"
                logger.warning("this machine cannot run code for %s, %s", _target(cpu), why)
                continue
            except (OSError, RuntimeError, ValueError) as error:
                taken, why = _target(next(iter(flops), cpu)), last_line(str(error))
                logger.warning("%s is taken; %s was not timed: %s", taken, _target(cpu), why)
                return taken
            if not wide:
                break
        if not flops:
            raise RuntimeError(
                "this machine cannot run what TVM compiles for its CPU, not even for llvm"
            )
        # interleaved, since other work may slow one of them down
        try:
            for _ in range(_ROUNDS if len(flops) > 1 else 0):
                for cpu, value in flops.items():
                    flops[cpu] = max(value, self._measure_flops(_target(cpu)))
        except (OSError, RuntimeError, ValueError) as error:  # the next call times them again
            logger.warning("%s was not timed again: %s", _target(cpu), last_line(str(error)))
            return _target(_fastest(flops))
        best = _fastest(flops)
        _remember(machine, _target(best), {_target(cpu): value for cpu, value in flops.items()})
        return _target(best)

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
        """An error that names what this machine lacks for a target, and a target that works."""
        works = self.cpu_target()
        features, lacking = self._features(target), self._missing(target)
        if not lacking:  # of what the processor reports, something does not work
            cpu = works.partition("-mcpu=")[2]
            lacking = instructions(features - self.cpu_features(cpu) if cpu else features)
        lacks = f"it lacks {', '.join(lacking)}"
        why = lacks if lacking else "a first kernel failed, which reads 256 MB"
        return ValueError(
            f"target must be one whose code this machine can run: {why}; {works} works"
        )

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


def candidate_cpus(system_cpu: str, features_of: Callable[[str], Iterable[str]]) -> list[str]:
    """CPUs whose code this processor says it can run, the best first; the last one is empty, for
    the architecture's baseline.

    `system_cpu` is LLVM's name for this processor, by family and model; ``"generic"`` or empty if
    it knows none. A virtual machine may hide features of it, or have more than its model.
    """
    reported = reported_features()
    if not reported:
        return [""]
    generic = {name: needs for name, needs in GENERIC_CPUS.items() if not missing(needs)}
    implied = set(features_of(system_cpu)) if system_cpu not in ("", "generic") else set()
    has_all = all(needs <= implied for needs in generic.values())
    is_best = implied and not missing(implied, implied) and has_all
    return [*dict.fromkeys([*([system_cpu] if is_best else []), *generic]), ""]


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
    """What this processor says it has, in plain lower case; empty if unknown."""
    if _CPUINFO.exists():
        cpu = cpuinfo()
        words = (cpu.get("flags") or cpu.get("Features", "")).split()
    elif sys.platform == "darwin":
        text = ""
        with suppress(OSError, subprocess.SubprocessError):
            text = subprocess.run(_SYSCTL, capture_output=True, text=True, timeout=10).stdout
        text = text.replace("FEAT_FP16:", "FEAT_FullFP16:")  # as LLVM has it
        words = re.findall(r"hw\.optional\.(?:arm\.FEAT_)?(\S+): 1", text)
        words += " ".join(re.findall("^machdep.cpu.*", text, re.MULTILINE)).split()
    else:
        words = []
    return frozenset(map(_plain, words))


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


def _fastest(flops: dict[str, float]) -> str:
    """The CPU to take, by operations per second; the first one may have wide vectors."""
    first, *others = flops
    return next((cpu for cpu in others if flops[first] < _WIDE_AT_LEAST * flops[cpu]), first)


def _target(cpu: str) -> str:
    return f"llvm -mcpu={cpu}" if cpu else "llvm"


def _file() -> Path:
    """Where targets are remembered."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "autotvm_opevo" / "targets.jsonl"


def _remembered(machine: list[Any]) -> str:
    """What was found on this machine; empty if nothing was."""
    target = ""
    with suppress(OSError, RuntimeError):
        for _, entry in jsonl.read(_file().read_bytes().splitlines()):
            if isinstance(entry, dict) and entry.get("machine") == machine:
                target = str(entry.get("target", target))
    return target


def _remember(machine: list[Any], target: str, flops: dict[str, float]) -> None:
    with suppress(OSError, RuntimeError):  # a folder that cannot be written, or no home
        _file().parent.mkdir(parents=True, exist_ok=True)
        jsonl.append(_file(), {"machine": machine, "target": target, "flops": flops})
