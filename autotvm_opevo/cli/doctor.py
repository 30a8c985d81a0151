"""``doctor``: check the installation, one line for each thing that is needed, with what to do where it is missing."""

from __future__ import annotations

import argparse
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from autotvm_opevo._utils.imports import ONNX
from autotvm_opevo._utils.text import last_line
from autotvm_opevo._version import __version__
from autotvm_opevo.cli.command import command

_EXAMPLES = """examples:
  python -m autotvm_opevo doctor

Check the installation: which TVM there is, which adapters work with it, compilers, devices, and what is missing.
"""
_STATUS = "exit status: 0 when everything that is installed works, 1 when something does not."
_MARKS = {True: "ok", False: "--", None: ""}
# TVM asks a device by its driver, which may hang; so it is asked by a process that can be ended.
_PATIENCE = 60


def add(commands: Any) -> None:
    """Add the command to a parser's."""
    command(commands, "doctor", "check the installation", _EXAMPLES, _STATUS, _run)


def _run(_: argparse.Namespace) -> int:
    findings, works = examine()
    print(*findings, sep="\n")
    return 0 if works else 1


@dataclass(frozen=True)
class Finding:
    """One line of the diagnosis.

    Attributes
    ----------
    name, found : str
        What was looked for, and what there is.
    fine : bool or None
        Whether that will do; None for what is not there and not everybody needs.
    what_to_do : str
        Where it will not.
    """

    name: str
    found: str
    fine: bool | None = True
    what_to_do: str = ""

    def __str__(self) -> str:
        line = f"{_MARKS[self.fine]:<3}{self.name:<16}{self.found}"
        return f"{line}\n{'':19}{self.what_to_do}" if self.what_to_do else line


def examine() -> tuple[list[Finding], bool]:
    """Everything that was looked at, and whether at least one adapter works.

    Examples
    --------
    >>> findings, _ = examine()
    >>> [finding.name for finding in findings][:3]
    ['autotvm_opevo', 'Python', 'libraries']
    """
    findings = [
        Finding("autotvm_opevo", __version__),
        Finding("Python", f"{platform.python_version()} on {platform.system()} {platform.machine()}"),
        Finding("libraries", ", ".join(f"{name} {_version(name)}" for name in ("numpy", "scipy", "tqdm"))),
    ]
    adapters = [_adapter("AutoTVM", "OpEvoTuner", _autotvm), _adapter("MetaSchedule", "OpEvoStrategy", _meta_schedule)]
    works = any(adapter.fine for adapter in adapters)
    for adapter in adapters:  # one is enough
        findings.append(adapter if adapter.fine or not works else replace(adapter, fine=None, what_to_do=""))
    if works:
        findings += [*_compilers(), *_devices()]
    findings += _optional(autotvm=adapters[0].fine is True)
    return findings, works


def _adapter(name: str, what: str, load: Callable[[], str]) -> Finding:
    try:
        return Finding(name, load())
    except ImportError as error:
        found, needs, what_to_do = str(error).partition(f". {what} needs ")
        return Finding(name, found, False, needs.removeprefix(". ") + what_to_do)


def _autotvm() -> str:
    from autotvm_opevo.autotvm.requirement import require_autotvm

    return f"{require_autotvm()}: `from autotvm_opevo import OpEvoTuner` works"


def _meta_schedule() -> str:
    from autotvm_opevo.meta_schedule.requirement import require_meta_schedule

    return f"{require_meta_schedule()}: `from autotvm_opevo.meta_schedule import OpEvoStrategy` works"


def _compilers() -> Iterator[Finding]:
    found = next((path for name in ("g++", "gcc", "clang++", "clang", "c++", "cc") if (path := shutil.which(name))), None)
    if found:
        yield Finding("C compiler", found)
    else:
        yield Finding("C compiler", "none found", False, "TVM links what it measures with one: install g++ or clang")
    nvcc = shutil.which("nvcc")
    yield Finding("CUDA compiler", nvcc) if nvcc else Finding("CUDA compiler", "none found; needed for NVIDIA GPUs alone", None)


# CPUs that every LLVM knows, the best first, and what Linux calls that they have.
_LIKE = {"skylake-avx512": {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}, "core-avx2": {"avx2", "fma"}}
_CPU = Path("/proc/cpuinfo")
_ASK = """
import tvm
kinds = [kind for kind in ("cuda", "rocm", "opencl", "vulkan", "metal") if tvm.device(kind, 0).exist]
print("llvm" if tvm.get_global_func("target.llvm_version_major", True) else "", *kinds)
print(getattr(tvm.target.codegen, "llvm_get_system_cpu", str)())
"""


def _devices() -> Iterator[Finding]:
    try:
        command = [sys.executable, "-c", _ASK]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE)
    except subprocess.TimeoutExpired:
        what_to_do = "a driver hangs: tvm.device(...).exist of cuda, rocm, opencl, vulkan or metal does not return"
        yield Finding("devices", f"no answer within {_PATIENCE} s", False, what_to_do)
        return
    if done.returncode:
        yield Finding("devices", last_line(done.stderr), False, "`import tvm` works, asking for devices does not")
        return
    *_, kinds, cpu = ["", "", *done.stdout.splitlines()]
    if "llvm" in kinds.split():
        newer = ""
        if cpu in ("", "generic"):  # a CPU that is newer than this LLVM, which would do without vectors
            flags = set(_CPU.read_text().split()) if _CPU.exists() else set()
            cpu = next((name for name, needs in _LIKE.items() if needs <= flags), "")
            newer = ", the nearest that its LLVM knows"
        yield Finding("CPU", f'--target "llvm -mcpu={cpu}"{newer}' if cpu else "--target llvm, and -mcpu=... that is like yours")
    else:
        yield Finding("CPU", "this TVM was built without LLVM", False, "build TVM with USE_LLVM=ON to tune for a CPU")
    gpus = [kind for kind in kinds.split() if kind != "llvm"]
    without = Finding("GPU", "none that TVM can use; a CPU can be tuned, and devices over RPC", None)
    yield Finding("GPU", ", ".join(gpus)) if gpus else without


def _optional(autotvm: bool) -> Iterator[Finding]:
    xgboost = _version("xgboost") or _version("xgboost-cpu")
    if not xgboost:
        yield Finding("xgboost", "not installed; TVM's own cost models need it, OpEvo does not", None)
    elif autotvm and int(xgboost.partition(".")[0]) >= 2:
        yield Finding("xgboost", f'{xgboost}: XGBTuner needs loss_type="rank-binary" or "reg", its "rank" fails since xgboost 2')
    else:
        yield Finding("xgboost", xgboost)
    yield _extra("for reports", "jinja2", "matplotlib")
    yield _extra("for ONNX files", "onnx")


def _extra(name: str, *packages: str) -> Finding:
    missing = [package for package in packages if not _version(package)]
    if missing:
        named = " ".join(f"'{ONNX}'" if package == "onnx" else package for package in missing)
        return Finding(name, f"not installed: pip install {named}", None)
    return Finding(name, ", ".join(f"{package} {_version(package)}" for package in packages))


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
