"""Where trials are built and run by default, and whether that is possible here."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import autotvm
from tvm.contrib.cc import create_shared
from tvm.target.codegen import llvm_version_major

from autotvm_opevo._utils.target_cpu import check_cpu
from autotvm_opevo.autotvm.builder import LocalBuilder
from autotvm_opevo.autotvm.rpc import devices
from autotvm_opevo.autotvm.runner import LocalRunner
from autotvm_opevo.autotvm.targets import check_local

# Targets whose device this machine may lack.
_DEVICE_TARGETS = ("cuda", "metal", "opencl", "rocm", "vulkan")


def default_measure_option(
    target: tvm.target.Target,
    timeout: float = 20,
    key: str | None = None,
    host: str | None = None,
    port: int | None = None,
) -> dict[str, Any]:
    """Builder on this machine, and a runner on its device or on all devices that a tracker has for
    a key.

    Each trial is repeated three times, for 50 ms on a CPU, for 150 ms on other devices, which take
    longer to reach full speed.
    """
    cpu = target.kind.name == "llvm"
    effort: dict[str, Any] = {
        "number": 1,
        "repeat": 3,
        "min_repeat_ms": 50 if cpu else 150,
        "cooldown_interval": 0,
    }
    if key is None or host is None or port is None:
        builder = LocalBuilder(timeout, build_func=create_shared, adaptive_timeout=True)
        runner = LocalRunner(timeout, **effort, pruning=1.5 if cpu else None)
    else:
        # the device links, since it may be of another kind
        builder = LocalBuilder(timeout, adaptive_timeout=True)
        runner = autotvm.RPCRunner(
            key, host, port, timeout=timeout, n_parallel=max(1, devices(key, host, port)), **effort
        )
    option: dict[str, Any] = autotvm.measure_option(builder=builder, runner=runner)
    return option


def check_device(target: tvm.target.Target, runner: Any) -> None:
    """Raise `ValueError` for a CPU unknown to LLVM, or a local runner where this machine lacks the
    device or instructions.
    """
    kind = target.kind.name
    if kind == "llvm":
        _check_cpu(target)
        if isinstance(runner, autotvm.LocalRunner):
            check_local(target)
    if (
        isinstance(runner, autotvm.LocalRunner)
        and kind in _DEVICE_TARGETS
        and not tvm.device(kind, 0).exist
    ):
        raise ValueError(
            f"this machine has no {kind} device, or TVM cannot find its driver: measure on "
            "another machine with an RPCRunner and "
            f"a tracker (--rpc-tracker and --rpc-key on the command line), or tune for llvm"
        )


def _check_cpu(target: tvm.target.Target) -> None:
    try:
        from tvm.target.codegen import llvm_get_cpu_archlist
    except ImportError:  # older than TVM 0.14
        return
    # or TVM would warn of it here
    without = {name: value for name, value in dict(target.export()).items() if name != "mcpu"}
    known = [str(name) for name in llvm_get_cpu_archlist(tvm.target.Target(without))]
    check_cpu(str(target.attrs.get("mcpu", "")), known, llvm_version_major())
