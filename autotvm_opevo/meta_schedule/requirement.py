"""Is there today's MetaSchedule? If not, say what there is instead, and what to do."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version

_WHAT_TO_DO = (
    "OpEvoStrategy needs the MetaSchedule of today's TVM, apache-tvm 0.27, and Python 3.10: pip install '.[tvm]' in a clone of "
    "autotvm_opevo (`make tune-relax` makes an environment with one). Without it autotvm_opevo.OpEvo works, on any space of "
    "your own."
)


def require_meta_schedule() -> None:
    """Return when ``tvm.s_tir.meta_schedule`` can be imported; else raise an `ImportError` that says which TVM was found."""
    try:
        tvm = import_module("tvm")
    except ModuleNotFoundError as error:
        if error.name != "tvm":
            raise ImportError(f"found a TVM that lacks a module of its own: {error}. {_WHAT_TO_DO}") from error
        raise ImportError(f"found no TVM: there is no module 'tvm'. {_WHAT_TO_DO}") from error
    except Exception as error:  # a library that cannot be loaded raises OSError, and others raise worse
        raise ImportError(f"found a TVM that cannot be imported: {type(error).__name__}: {error}. {_WHAT_TO_DO}") from error
    found = f"TVM {getattr(tvm, '__version__', 'of unknown version')} in {getattr(tvm, '__path__', ['?'])[0]}"
    try:
        import_module("tvm.s_tir.meta_schedule")
    except ModuleNotFoundError as error:
        if error.name is None or not "tvm.s_tir.meta_schedule".startswith(error.name):
            raise ImportError(f"found {found}, whose MetaSchedule lacks a module: {error}. {_WHAT_TO_DO}") from error
        old = "whose AutoTVM has OpEvoTuner (`from autotvm_opevo import OpEvoTuner`), but " if _has_autotvm() else "which has "
        raise ImportError(f"found {found}, {old}no tvm.s_tir.meta_schedule. {_WHAT_TO_DO}") from error
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise ImportError(f"found {found}, whose MetaSchedule cannot be imported: {reason}. {_WHAT_TO_DO}") from error
    ffi = _version("apache-tvm-ffi")
    if ffi >= (0, 1, 15) and _version("apache-tvm")[:2] == (0, 27):
        given = ".".join(map(str, ffi))
        raise ImportError(f"found {found} with apache-tvm-ffi {given}, with which it crashes: 'apache-tvm-ffi<0.1.15' is needed")


def _version(package: str) -> tuple[int, ...]:
    """Of what is installed, as far as it is numbers; nothing of what was built from source."""
    try:
        return tuple(int(part) for part in version(package).split(".")[:3] if part.isdecimal())
    except PackageNotFoundError:
        return ()


def _has_autotvm() -> bool:
    try:
        import_module("tvm.autotvm")
    except Exception:
        return False
    return True
