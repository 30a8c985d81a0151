"""TVM's tensor intrinsics, which its ``TuneContext`` imports, in a fraction of the time."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from traceback import walk_stack
from types import ModuleType
from unittest.mock import patch

import tvm.s_tir
from tvm.target import Target
from tvm.target.codegen import target_has_features

from autotvm_opevo._utils.timeouts import run_compiler

_PACKAGE = "tvm.s_tir.tensor_intrin"


def import_tensor_intrinsics() -> None:
    """Import all of ``tvm.s_tir.tensor_intrin``.

    TVM's parser calls ``inspect.stack()`` for each of hundreds of functions. For each of about
    thirty frames, most of the import system itself, that searches all loaded modules and reads
    source files, of which the parser looks at one line.
    """
    _import(_PACKAGE)


@contextmanager
def few_intrinsics(target: Target) -> Iterator[None]:
    """Let a ``TuneContext`` for an x86 CPU import x86's intrinsics only: most are CUDA's. A later
    import gets the others, too.
    """
    for_cpu = target.kind.name == "llvm" and tvm.runtime.enabled("llvm")
    is_x86 = for_cpu and target_has_features("sse2", target)
    if not is_x86 or _PACKAGE in sys.modules:
        import_tensor_intrinsics()
        yield
        return
    package = ModuleType(_PACKAGE)
    package.__path__ = [str(Path(tvm.s_tir.__file__).with_name("tensor_intrin"))]
    try:
        sys.modules[_PACKAGE] = package
        _import(f"{_PACKAGE}.x86")
        yield
    finally:
        sys.modules.pop(_PACKAGE, None)


def _import(module: str) -> None:
    """Ctrl-C waits for it: TVM refuses to register a second time what half an import has
    registered.
    """

    def do_import() -> None:
        with patch.object(inspect, "stack", _stack):
            import_module(module)

    if module not in sys.modules:
        run_compiler(do_import, "importing TVM's tensor intrinsics")


def _stack(context: int = 1) -> list[inspect.FrameInfo]:
    """``inspect.stack`` without lines of source code."""
    return [
        inspect.FrameInfo(f, f.f_code.co_filename, line, f.f_code.co_name, None, None)
        for f, line in walk_stack(sys._getframe(1))
    ]
