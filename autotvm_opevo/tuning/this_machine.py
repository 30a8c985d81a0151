"""The target of this machine, and whether it can run the code of another. Imports no TVM: it gets
the one that is installed.
"""

from __future__ import annotations

import hashlib
import logging
import os
import platform
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from autotvm_opevo._utils import jsonl
from autotvm_opevo._utils.target_cpu import (
    candidate_cpus,
    check_cpu,
    instructions,
    is_wide,
    missing,
    reported_features,
)
from autotvm_opevo._utils.text import last_line

# Those that are there to compute; others may be a slow substitute on a machine without any.
_GPUS = ("cuda", "rocm", "metal")
# Code with vectors of 512 bits has to be this many times as fast as with 256: some processors
# compute with halves of them, and schedules for 256 bits fit more shapes.
_WORTH = 1.1
# How often two are timed, interleaved; the best of each counts.
_ROUNDS = 3

logger = logging.getLogger(__name__)


class ThisMachine:
    """What this machine can run of the code that a TVM compiles.

    Parameters
    ----------
    tvm : module
        The installed TVM, whichever it is.
    measure_flops : callable
        Takes a CPU's target; returns the operations per second of a matrix product with its code.
        Raises `ChildProcessError` if this machine cannot run it.
    """

    def __init__(self, tvm: Any, measure_flops: Callable[[str], float]) -> None:
        self._tvm, self._measure_flops = tvm, measure_flops

    def target(self) -> Any:
        """The target of this machine's GPU if it has one, else of its CPU: a string or a
        ``tvm.target.Target``.
        """
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
        codegen = self._tvm.target.codegen
        system_cpu = getattr(codegen, "llvm_get_system_cpu", str)()
        version = getattr(codegen, "llvm_version_major", int)()
        about = f"{platform.machine()} {_model()} {sorted(reported_features())}"
        machine = [
            self._tvm.__version__,
            version,
            system_cpu,
            hashlib.sha256(about.encode()).hexdigest()[:16],
        ]
        if known := _remembered(machine):
            return known
        flops: dict[str, float] = {}
        for cpu in candidate_cpus(system_cpu, self.cpu_features):
            wide = is_wide(self.cpu_features(cpu)) if cpu else False
            if wide and flops:
                continue
            try:
                flops[cpu] = self._measure_flops(_target(cpu))
            except ChildProcessError:
                logger.warning(
                    "this machine cannot run code for %s, though its processor reports the "
                    "features: trying one with fewer",
                    _target(cpu),
                )
                continue
            except (OSError, RuntimeError, ValueError) as error:
                logger.warning(
                    "%s is not tried before it is used: %s", _target(cpu), last_line(str(error))
                )
                return _target(cpu)
            if not wide:
                break
        if not flops:
            raise RuntimeError(
                "this machine cannot run what TVM compiles for its CPU, not even for llvm"
            )
        # interleaved, since other work may slow one of them down
        for _ in range(_ROUNDS if len(flops) > 1 else 0):
            flops = {
                cpu: max(best, self._measure_flops(_target(cpu))) for cpu, best in flops.items()
            }
        first, *others = flops
        best = next((cpu for cpu in others if flops[first] < _WORTH * flops[cpu]), first)
        _remember(machine, _target(best), {_target(cpu): value for cpu, value in flops.items()})
        return _target(best)

    def check(self, target: Any) -> None:
        """Raise `ValueError` for a CPU's target whose code this machine cannot run, by its triple
        or its processor's features.
        """
        _check_triple(str(target.attrs.get("mtriple", "")))
        if missing(self._features(target)):
            raise self.cannot_run(target)

    def cannot_run(self, target: Any) -> ValueError:
        """An error that names the instructions of a target that this machine lacks, and a target
        that works.
        """
        works = self.cpu_target()
        features = self._features(target)
        lacking = missing(features)
        if not lacking:  # of what the processor reports, something does not work
            cpu = works.partition("-mcpu=")[2]
            lacking = instructions(features - self.cpu_features(cpu) if cpu else features)
        why = (
            f"it lacks {', '.join(lacking)}"
            if lacking
            else "a first kernel failed, which reads 256 MB"
        )
        return ValueError(
            f"target must be one whose code this machine can run: {why}; {works} works"
        )

    def cpu_features(self, cpu: str) -> frozenset[str]:
        """LLVM's features of a CPU; none if this TVM cannot tell."""
        return self._features(self._tvm.target.Target({"kind": "llvm", "mcpu": cpu}))

    def _features(self, target: Any) -> frozenset[str]:
        get = getattr(self._tvm.target.codegen, "llvm_get_cpu_features", None)
        return frozenset(map(str, get(target))) if get else frozenset()


def check_llvm_cpu(tvm: Any, target: Any) -> None:
    """Raise `ValueError` for a target whose CPU the LLVM of a TVM does not know."""
    codegen = tvm.target.codegen
    if hasattr(codegen, "llvm_get_cpu_archlist"):  # not before TVM 0.14
        # with its CPU, TVM would warn of it here
        options = {name: value for name, value in dict(target.export()).items() if name != "mcpu"}
        known = [str(name) for name in codegen.llvm_get_cpu_archlist(tvm.target.Target(options))]
        check_cpu(str(target.attrs.get("mcpu", "")), known, codegen.llvm_version_major())


def _check_triple(triple: str) -> None:
    """Raise `ValueError` for a target triple whose code this machine cannot run; an empty one means
    this machine's.
    """
    machine = platform.machine()
    families = {_family(triple.partition("-")[0]), _family(machine)}
    if triple and len(families) == 2 and "" not in families:
        raise ValueError(
            f"this machine, {machine}, cannot run code for {triple}: measure on another one, "
            "with an RPCRunner and a tracker (--rpc-tracker and --rpc-key on the command line)"
        )


def _target(cpu: str) -> str:
    return f"llvm -mcpu={cpu}" if cpu else "llvm"


def _family(architecture: str) -> str:
    """Architectures whose code may run on the same machine; empty for others than these."""
    name = architecture.lower()
    if name in ("x86_64", "amd64", "i386", "i486", "i586", "i686"):
        return "x86"
    return next(
        (family for family in ("arm", "aarch64", "riscv") if name.startswith(family)), ""
    ).replace("aarch64", "arm")


def _model() -> str:
    """The processor's name, as Linux has it; others keep their features apart."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    return next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")),
        platform.processor(),
    )


def _file() -> Path:
    """Where targets are remembered."""
    return (
        Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        / "autotvm_opevo"
        / "targets.jsonl"
    )


def _remembered(machine: list[Any]) -> str:
    """What was found on this machine; empty if nothing was."""
    with suppress(OSError, RuntimeError):
        entries = [
            value
            for _, value in jsonl.read(_file().read_bytes().splitlines())
            if isinstance(value, dict)
        ]
        return next(
            (
                str(entry["target"])
                for entry in reversed(entries)
                if entry.get("machine") == machine and "target" in entry
            ),
            "",
        )
    return ""


def _remember(machine: list[Any], target: str, flops: dict[str, float]) -> None:
    with suppress(OSError, RuntimeError):  # a folder that cannot be written, or no home
        _file().parent.mkdir(parents=True, exist_ok=True)
        jsonl.append(_file(), {"machine": machine, "target": target, "flops": flops})
