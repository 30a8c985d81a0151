"""Collect the tests for the TVM that is installed: AutoTVM (before 0.20) or MetaSchedule (0.27)."""

from importlib.util import find_spec
from pathlib import Path

_AUTOTVM = [
    *("autotvm_opevo/autotvm", "autotvm_opevo/cli/tvmc.py", "autotvm_opevo/tvmc.py"),
    *("tests/autotvm", "tests/benchmarks", "tests/cli/test_main.py", "benchmarks"),
]
_META_SCHEDULE = ["autotvm_opevo/meta_schedule", "tests/meta_schedule"]
# Tests that need no TVM run once, with AutoTVM's.
_NO_TVM = ["tests/baselines", "tests/tutorials", "tests/tools", "tests/reporting"]

# Not `find_spec("tvm.s_tir")`, which would import TVM.
_tvm = find_spec("tvm")
_has_meta_schedule = any((Path(folder) / "s_tir").is_dir() for folder in (_tvm and _tvm.submodule_search_locations) or [])

collect_ignore = ["tests/helpers", *(_AUTOTVM + _NO_TVM if _has_meta_schedule else _META_SCHEDULE)]

# Files with few, slow tests, which the alphabet has last.
_SLOW = {"test_tutorials", "test_winograd"}


def pytest_collection_modifyitems(items):
    """Begin with slow files, so that no process is left alone with one at the end."""
    items.sort(key=lambda item: item.path.stem not in _SLOW)
