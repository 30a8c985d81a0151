"""What of this machine can tune: one line for each thing that is needed, with what to do where it is missing."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version

from autotvm_opevo._version import __version__
from autotvm_opevo.display import last_line

# TVM asks a device by its driver, which may hang; so it is asked by a process that can be ended.
_PATIENCE = 60


@dataclass(frozen=True)
class Finding:
    """One line of the diagnosis.

    Attributes
    ----------
    name, found : str
        What was looked for, and what there is.
    fine : bool
        Whether that will do.
    what_to_do : str
        Where it will not.
    """

    name: str
    found: str
    fine: bool = True
    what_to_do: str = ""

    def __str__(self) -> str:
        line = f"{'ok' if self.fine else '--':<3}{self.name:<16}{self.found}"
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
    findings += [replace(adapter, what_to_do="") if works else adapter for adapter in adapters]  # one is enough
    if works:
        findings += [*_compilers(), *_devices()]
    findings += _optional(autotvm=adapters[0].fine)
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
    yield Finding("CUDA compiler", nvcc or "none found; needed for NVIDIA GPUs alone")


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
        named = cpu not in ("", "generic")  # of a CPU that is newer than this LLVM
        yield Finding("CPU", f'--target "llvm -mcpu={cpu}"' if named else "--target llvm, with -mcpu=... if LLVM knows yours")
    else:
        yield Finding("CPU", "this TVM was built without LLVM", False, "build TVM with USE_LLVM=ON to tune for a CPU")
    gpus = [kind for kind in kinds.split() if kind != "llvm"]
    yield Finding("GPU", ", ".join(gpus) if gpus else "none that TVM can use; a CPU can be tuned, and devices over RPC")


def _optional(autotvm: bool) -> Iterator[Finding]:
    xgboost = _version("xgboost") or _version("xgboost-cpu")
    if not xgboost:
        yield Finding("xgboost", "not installed; TVM's own cost models need it, OpEvo does not")
    elif autotvm and int(xgboost.partition(".")[0]) >= 2:
        yield Finding("xgboost", f'{xgboost}: XGBTuner needs loss_type="rank-binary" or "reg", its "rank" fails since xgboost 2')
    else:
        yield Finding("xgboost", xgboost)
    missing = [name for name in ("matplotlib", "jinja2") if not _version(name)]
    found = f"not installed: {', '.join(missing)}; pip install 'autotvm-opevo[report]'" if missing else "matplotlib and jinja2"
    yield Finding("for reports", found)
    yield Finding("for ONNX files", _version("onnx") or "not installed; pip install 'autotvm-opevo[onnx]'")


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
