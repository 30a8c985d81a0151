"""What a result depends on."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import tvm


def machine(target: str) -> dict[str, str]:
    """The device of a target, and the versions."""
    kind = tvm.target.Target(target).kind.name
    device = processor() if kind == "llvm" else tvm.device(kind, 0).device_name
    return {
        "device": device,
        "python": platform.python_version(),
        "tvm": tvm.__version__,
        "xgboost": _version("xgboost-cpu", "xgboost"),
    }


def processor() -> str:
    """The CPU's name, as the system says it."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def _version(*packages: str) -> str:
    for package in packages:
        try:
            return version(package)
        except PackageNotFoundError:
            continue
    return "?"
