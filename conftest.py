"""Collect the tests for the TVM that is installed: AutoTVM (before 0.20) or MetaSchedule (0.27)."""

import os
from importlib.util import find_spec
from pathlib import Path

import pytest

# Several tests run at once: of their TVM threads, most would wait for a core. Before TVM is
# imported.
os.environ.setdefault("TVM_NUM_THREADS", "1")
# What tests expect is of a CPU, also on a machine with a GPU.
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

_AUTOTVM = [
    *("autotvm_opevo/autotvm", "autotvm_opevo/networks/relay.py"),
    *(
        "tests/autotvm",
        "tests/benchmarks",
        "tests/networks/test_relay.py",
        "tests/cli/test_main.py",
        "benchmarks",
    ),
]
_META_SCHEDULE = [
    *("autotvm_opevo/lowering", "autotvm_opevo/meta_schedule", "autotvm_opevo/networks/relax.py"),
    *("tests/lowering", "tests/meta_schedule", "tests/networks/test_relax.py"),
]
# Tests that need no TVM run once, with AutoTVM's.
_NO_TVM = ["tests/baselines", "tests/tutorials", "tests/tools", "tests/reporting"]

# Not `find_spec("tvm.s_tir")`, which would import TVM.
_tvm = find_spec("tvm")
_has_meta_schedule = any(
    (Path(folder) / "s_tir").is_dir() for folder in (_tvm and _tvm.submodule_search_locations) or []
)

collect_ignore = ["tests/helpers", *(_AUTOTVM + _NO_TVM if _has_meta_schedule else _META_SCHEDULE)]

# Files that take longest, of both TVMs.
_SLOW = [
    *(
        "test_channels_last",
        "test_documentation",
        "test_onnx_zoo",
        "test_tutorials",
        "test_network",
    ),
    *("test_rpc", "test_adapter", "test_tune_matmul", "test_comparison", "test_main"),
    *("test_strategy", "test_command_line", "test_runs", "test_tuner"),
    *("test_compare", "test_doctor", "test_confirmation"),
    *("test_builder", "test_winograd", "test_modules", "test_runner", "test_intrinsics"),
]


def pytest_collection_modifyitems(items):
    """Begin with slow files, the slowest first, so that no process is left alone with one at the
    end.
    """
    ranks = {name: rank for rank, name in enumerate(_SLOW)}
    items.sort(key=lambda item: ranks.get(item.path.stem, len(ranks)))


_CORES = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None


def _unbind():
    """Undo that TVM binds a process that runs its code to one core, to which all that it starts
    would be bound, too.
    """
    if _CORES:
        os.sched_setaffinity(0, _CORES)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    _unbind()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item):
    _unbind()
