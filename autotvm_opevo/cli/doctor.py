"""``doctor``: check the installation, a line for each component, with a hint where it is broken."""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from autotvm_opevo._utils.cpu_cores import thread_mismatch
from autotvm_opevo._utils.imports import ONNX
from autotvm_opevo._utils.text import last_line
from autotvm_opevo._version import __version__

SUMMARY = "check the installation"
DESCRIPTION = """Check the installation: TVM, compilers, devices and optional packages.

Prints the --target of this machine's CPU, and what to install where something is missing."""
EXAMPLES = """examples:
  %(prog)s
"""
STATUS = """exit status: 0 if everything installed works, with or without TVM; 1 if a component is
broken or unsupported."""
_MARKS = {True: "ok", False: "--", None: ""}
# Seconds for a child process that queries the devices: a driver may hang, but a busy machine takes
# a minute to import TVM.
_PATIENCE = 180
# What there is of an NVIDIA GPU, whether TVM can use it or not.
_NVIDIA = Path("/dev/nvidia0")
# What the package needs, as in setup.cfg.
_LIBRARIES = ("cloudpickle", "msgspec", "numpy", "scipy", "threadpoolctl", "tqdm")


def add_arguments(_: argparse.ArgumentParser) -> None:
    """It takes none."""


def run(_: argparse.Namespace) -> int:
    """Run the command; returns the exit status."""
    findings = examine()
    print(*findings, sep="\n")
    return 1 if any(finding.ok is False for finding in findings) else 0


@dataclass(frozen=True)
class Finding:
    """One line of the diagnosis; `ok` is None for an optional component that is not installed."""

    name: str
    value: str
    ok: bool | None = True
    what_to_do: str = ""

    def __str__(self) -> str:
        line = f"{_MARKS[self.ok]:<3}{self.name:<16}{self.value}"
        return f"{line}\n{'':19}{self.what_to_do}" if self.what_to_do else line


def examine() -> list[Finding]:
    """Check all components."""
    adapters = [
        _adapter("AutoTVM", "autotvm", "from autotvm_opevo import OpEvoTuner"),
        _adapter(
            "MetaSchedule",
            "meta_schedule",
            "from autotvm_opevo.meta_schedule import OpEvoStrategy",
        ),
    ]
    autotvm, one_works = adapters[0].ok is True, any(adapter.ok for adapter in adapters)
    if one_works:  # no TVM has both
        adapters = [
            adapter if adapter.ok else Finding(adapter.name, adapter.value, None)
            for adapter in adapters
        ]
    elif not find_spec("tvm"):  # the search works on spaces of the user's own
        adapters = [replace(adapter, ok=None) for adapter in adapters]
    system = f"{platform.system()} {platform.machine()}"
    return [
        Finding("autotvm_opevo", __version__),
        Finding("Python", f"{platform.python_version()} on {system}"),
        _libraries(),
        *adapters,
        *([*_compilers(), *_devices(autotvm)] if one_works else []),
        *_optional(autotvm),
    ]


def _libraries() -> Finding:
    """What this package needs, of which some may be missing where its folder was copied."""
    missing = [name for name in _LIBRARIES if not find_spec(name)]
    found = ", ".join(f"{name} {_version(name)}" for name in _LIBRARIES if name not in missing)
    what_to_do = f"not installed: pip install {' '.join(missing)}" if missing else ""
    return Finding("libraries", found, not missing, what_to_do)


def _adapter(name: str, folder: str, use: str) -> Finding:
    try:
        requirement = import_module(f"autotvm_opevo.{folder}.requirement")
        return Finding(name, f"{getattr(requirement, f'require_{folder}')()}: `{use}` works")
    except ImportError as error:
        problem = getattr(error, "problem", str(error))
        return Finding(name, problem, False, getattr(error, "what_to_do", ""))


def _compilers() -> Iterator[Finding]:
    given = os.environ.get("CXX") or os.environ.get("CC")  # which TVM takes before all others
    names = [given] if given else ["g++", "gcc", "clang++", "clang", "c++", "cc"]
    if compiler := next(filter(None, map(shutil.which, names)), None):
        yield Finding("C compiler", compiler)
    else:
        what_to_do = "TVM needs one to link what it measures: install g++ or clang"
        found = f"CXX or CC names {given!r}, which is not found" if given else "none found"
        yield Finding("C compiler", found, False, what_to_do)
    nvcc = shutil.which("nvcc")
    missing = "none found; only needed for NVIDIA GPUs"
    yield Finding("CUDA compiler", nvcc or missing, True if nvcc else None)


_QUERY = """
import tvm
threads = tvm.get_global_func("runtime.NumThreads", True)
print(threads() if threads else 0)
gpus = [kind for kind in ("cuda", "rocm", "opencl", "vulkan", "metal") if tvm.device(kind, 0).exist]
print("llvm" if tvm.get_global_func("target.llvm_version_major", True) else "", *gpus)
"""
# After the devices, of which a driver may hang; a kernel may end the process.
_CPU_QUERY = """
from autotvm_opevo.{adapter}.targets import as_target, local_cpu_target, measure_roofline
target = local_cpu_target()
measure_roofline(as_target(target))
print(target)
"""
_GPU_QUERY = """
from autotvm_opevo.{adapter}.targets import THIS_MACHINE, as_target, local_target
THIS_MACHINE.check_compiler(as_target(local_target()))
"""


def _ask(query: str) -> subprocess.CompletedProcess[str] | None:
    """A child process that has ended; None if it did not in time."""
    command = [sys.executable, "-c", query]
    with suppress(subprocess.TimeoutExpired):
        return subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE)
    return None


def _devices(autotvm: bool) -> Iterator[Finding]:
    done = _ask(_QUERY)
    if done is None:
        what_to_do = (
            "a driver hangs: tvm.device(...).exist does not return for cuda, rocm, "
            "opencl, vulkan or metal"
        )
        yield Finding("devices", f"no answer within {_PATIENCE} s", False, what_to_do)
        return
    if done.returncode:
        what_to_do = "`import tvm` works, but querying the devices fails"
        yield Finding("devices", last_line(done.stderr), False, what_to_do)
        return
    *_, threads, kinds = ["", "", *done.stdout.splitlines()]
    gpus = [kind for kind in kinds.split() if kind != "llvm"]
    adapter = "autotvm" if autotvm else "meta_schedule"
    if "llvm" in kinds.split():
        yield _cpu(adapter)
        if threads.isdigit() and (mismatch := thread_mismatch(int(threads))):
            yield Finding("threads", mismatch, None)
    else:
        what_to_do = "build TVM with USE_LLVM=ON to tune for a CPU"
        yield Finding("CPU", "this TVM was built without LLVM", None if gpus else False, what_to_do)
    if gpus:
        done = _ask(_GPU_QUERY.format(adapter=adapter))
        if done is None:
            problem = f"no kernel was compiled within {_PATIENCE} s"
        elif done.returncode:
            problem = last_line(done.stderr) or f"compiling a kernel ended with {done.returncode}"
        else:
            problem = ""
        yield Finding("GPU", ", ".join(gpus), not problem, problem)
        return
    what_to_do = "use a CPU target, or an RPCRunner with a tracker"
    if _NVIDIA.exists():
        what_to_do = (
            f"there is an NVIDIA GPU, {_NVIDIA}: the loader must find the driver's libcuda.so.1 "
            "and, for TVM 0.27, libcudart.so.13 of CUDA 13, such as by LD_LIBRARY_PATH"
        )
    elif autotvm:
        what_to_do = (
            "AutoTVM scripts for cuda, such as TVM's tune_conv2d_cuda.py, wait forever "
            f"without a GPU: {what_to_do}"
        )
    yield Finding("GPU", "none that TVM can use", None, what_to_do)


def _cpu(adapter: str) -> Finding:
    """The target of this machine's CPU, whose code has run."""
    done = _ask(_CPU_QUERY.format(adapter=adapter))
    if done is None:
        what_to_do = "end other work on this machine, and try again"
        return Finding("CPU", f"no kernel has run within {_PATIENCE} s", False, what_to_do)
    if done.returncode:
        what_to_do = (
            "build TVM for this processor, or measure on another machine, with an RPCRunner and a "
            "tracker; the kernels read 256 MB"
        )
        why = last_line(done.stderr) or f"ended with {done.returncode}"
        return Finding("CPU", f"no kernel runs here: {why}", False, what_to_do)
    return Finding("CPU", f'--target "{last_line(done.stdout)}"')


def _optional(autotvm: bool) -> Iterator[Finding]:
    xgboost = _version("xgboost") or _version("xgboost-cpu")
    if not xgboost:
        yield Finding("xgboost", "not installed; only needed for TVM's own cost models", None)
    else:
        fails = 'XGBTuner needs loss_type="rank-binary" or "reg"; "rank" fails since xgboost 2'
        is_new = autotvm and int(xgboost.partition(".")[0]) >= 2
        yield Finding("xgboost", f"{xgboost}: {fails}" if is_new else xgboost)
    for name, packages in (("reports", ("jinja2", "matplotlib")), ("ONNX files", ("onnx",))):
        if missing := [package for package in packages if not _version(package)]:
            named = " ".join(f"'{ONNX}'" if package == "onnx" else package for package in missing)
            yield Finding(name, f"not installed: pip install {named}", None)
        else:
            versions = ", ".join(f"{package} {_version(package)}" for package in packages)
            yield Finding(name, versions)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
