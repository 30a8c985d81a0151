"""``doctor``: check the installation, one line for each component, with a hint where one is missing
or broken.
"""

from __future__ import annotations

import argparse
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any

from autotvm_opevo._utils.cpu_cores import idle_cores
from autotvm_opevo._utils.imports import ONNX
from autotvm_opevo._utils.text import last_line
from autotvm_opevo._version import __version__
from autotvm_opevo.cli.main import command

_DESCRIPTION = """Check the installation: TVM, compilers, devices and optional packages.

Prints the --target of this machine's CPU, and what to install where something is missing."""
_EXAMPLES = """examples:
  %(prog)s
"""
_STATUS = """exit status: 0 if everything installed works, with or without TVM; 1 if a component is
broken or unsupported."""
_MARKS = {True: "ok", False: "--", None: ""}
# Seconds for a child process that queries the devices: a driver may hang, but a busy machine takes
# a minute to import TVM.
_PATIENCE = 180


def add(commands: Any) -> None:
    """Add the command to the program's parser."""
    command(commands, "doctor", "check the installation", _DESCRIPTION, _EXAMPLES, _STATUS, _run)


def _run(_: argparse.Namespace) -> int:
    findings = examine()
    print(*findings, sep="\n")
    return 1 if any(finding.ok is False for finding in findings) else 0


@dataclass(frozen=True)
class Finding:
    """One line of the diagnosis.

    Attributes
    ----------
    name, found : str
        The component and its state.
    ok : bool or None
        Whether it works; None for an optional component that is not installed.
    what_to_do : str
        A hint where it is missing or broken.
    """

    name: str
    found: str
    ok: bool | None = True
    what_to_do: str = ""

    def __str__(self) -> str:
        line = f"{_MARKS[self.ok]:<3}{self.name:<16}{self.found}"
        return f"{line}\n{'':19}{self.what_to_do}" if self.what_to_do else line


def examine() -> list[Finding]:
    """Check all components.

    Examples
    --------
    >>> [finding.name for finding in examine()][:3]  # doctest: +SKIP
    ['autotvm_opevo', 'Python', 'libraries']
    """
    libraries = ("msgspec", "numpy", "scipy", "threadpoolctl", "tqdm")
    adapters = list(_adapters())
    autotvm = adapters[0].ok is True
    return [
        Finding("autotvm_opevo", __version__),
        Finding(
            "Python", f"{platform.python_version()} on {platform.system()} {platform.machine()}"
        ),
        Finding("libraries", ", ".join(f"{name} {_version(name)}" for name in libraries)),
        *adapters,
        *([*_compilers(), *_devices(autotvm)] if any(adapter.ok for adapter in adapters) else []),
        *_optional(autotvm),
    ]


def _adapters() -> Iterator[Finding]:
    """Both adapters; no TVM has both, and without any the search works on spaces of the user's
    own.
    """
    adapters = [_adapter("AutoTVM", _autotvm), _adapter("MetaSchedule", _meta_schedule)]
    one_works = any(adapter.ok for adapter in adapters)
    for adapter in adapters:
        if adapter.ok:
            yield adapter
        elif one_works:
            yield replace(adapter, ok=None, what_to_do="")
        else:
            yield replace(adapter, ok=False if find_spec("tvm") else None)


def _adapter(name: str, load: Callable[[], str]) -> Finding:
    try:
        return Finding(name, load())
    except ImportError as error:
        return Finding(
            name, getattr(error, "found", str(error)), False, getattr(error, "what_to_do", "")
        )


def _autotvm() -> str:
    from autotvm_opevo.autotvm.requirement import require_autotvm

    return f"{require_autotvm()}: `from autotvm_opevo import OpEvoTuner` works"


def _meta_schedule() -> str:
    from autotvm_opevo.meta_schedule.requirement import require_meta_schedule

    return (
        f"{require_meta_schedule()}: `from autotvm_opevo.meta_schedule import OpEvoStrategy` works"
    )


def _compilers() -> Iterator[Finding]:
    found = next(
        (
            path
            for name in ("g++", "gcc", "clang++", "clang", "c++", "cc")
            if (path := shutil.which(name))
        ),
        None,
    )
    if found:
        yield Finding("C compiler", found)
    else:
        yield Finding(
            "C compiler",
            "none found",
            False,
            "TVM needs one to link what it measures: install g++ or clang",
        )
    nvcc = shutil.which("nvcc")
    yield (
        Finding("CUDA compiler", nvcc)
        if nvcc
        else Finding("CUDA compiler", "none found; only needed for NVIDIA GPUs", None)
    )


_QUERY = """
import tvm
threads = tvm.get_global_func("runtime.NumThreads", True)
print(threads() if threads else 0)
gpus = [kind for kind in ("cuda", "rocm", "opencl", "vulkan", "metal") if tvm.device(kind, 0).exist]
print("llvm" if tvm.get_global_func("target.llvm_version_major", True) else "", *gpus)
"""
# After the devices, of which a driver may hang; a first kernel of what the processor reports has
# run in a process of its own.
_CPU_QUERY = """
from autotvm_opevo.{adapter}.targets import local_cpu_target
print(local_cpu_target())
"""


def _devices(autotvm: bool) -> Iterator[Finding]:
    try:
        command = [sys.executable, "-c", _QUERY]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE)
    except subprocess.TimeoutExpired:
        what_to_do = (
            "a driver hangs: tvm.device(...).exist does not return for cuda, rocm, "
            "opencl, vulkan or metal"
        )
        yield Finding("devices", f"no answer within {_PATIENCE} s", False, what_to_do)
        return
    if done.returncode:
        yield Finding(
            "devices",
            last_line(done.stderr),
            False,
            "`import tvm` works, but querying the devices fails",
        )
        return
    *_, threads, kinds = ["", "", *done.stdout.splitlines()]
    gpus = [kind for kind in kinds.split() if kind != "llvm"]
    if "llvm" in kinds.split():
        yield _cpu("autotvm" if autotvm else "meta_schedule")
        if threads.isdigit() and (idle := idle_cores(int(threads))):
            yield Finding("threads", idle, None)
    else:
        what_to_do = "build TVM with USE_LLVM=ON to tune for a CPU"
        yield Finding("CPU", "this TVM was built without LLVM", None if gpus else False, what_to_do)
    if gpus:
        yield Finding("GPU", ", ".join(gpus))
        return
    what_to_do = "use a CPU target, or an RPCRunner with a tracker"
    if autotvm:
        what_to_do = (
            "AutoTVM scripts for cuda, such as TVM's tune_conv2d_cuda.py, wait forever "
            f"without a GPU: {what_to_do}"
        )
    yield Finding("GPU", "none that TVM can use", None, what_to_do)


def _cpu(adapter: str) -> Finding:
    """The target of this machine's CPU, whose code has run."""
    command = [sys.executable, "-c", _CPU_QUERY.format(adapter=adapter)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE)
    except subprocess.TimeoutExpired:
        return Finding(
            "CPU",
            f"no kernel has run within {_PATIENCE} s",
            False,
            "end other work on this machine, and try again",
        )
    if done.returncode:
        what_to_do = (
            "build TVM for this processor, or measure on another machine, with an "
            "RPCRunner and a tracker"
        )
        return Finding("CPU", f"no kernel runs here: {last_line(done.stderr)}", False, what_to_do)
    return Finding("CPU", f'--target "{last_line(done.stdout)}"', what_to_do=last_line(done.stderr))


def _optional(autotvm: bool) -> Iterator[Finding]:
    xgboost = _version("xgboost") or _version("xgboost-cpu")
    if not xgboost:
        yield Finding("xgboost", "not installed; only needed for TVM's own cost models", None)
    elif autotvm and int(xgboost.partition(".")[0]) >= 2:
        yield Finding(
            "xgboost",
            f'{xgboost}: XGBTuner needs loss_type="rank-binary" or "reg"; "rank" fails since '
            "xgboost 2",
        )
    else:
        yield Finding("xgboost", xgboost)
    yield _extra("reports", "jinja2", "matplotlib")
    yield _extra("ONNX files", "onnx")


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
