"""Is there an AutoTVM? If not, say what there is instead, and what to do."""

from __future__ import annotations

from importlib import import_module

_WHAT_TO_DO = (
    "OpEvoTuner needs a TVM with AutoTVM, 0.8 to 0.19 (`make tune` in a clone of autotvm_opevo makes an environment with one). "
    "With today's TVM there is `from autotvm_opevo.meta_schedule import OpEvoStrategy`; without any, autotvm_opevo.OpEvo works, "
    "on any search space of your own."
)


def require_autotvm() -> None:
    """Return when ``tvm.autotvm`` can be imported; else raise an `ImportError` that says which TVM was found."""
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
        import_module("tvm.autotvm")
    except ModuleNotFoundError as error:
        if error.name != "tvm.autotvm":
            raise ImportError(f"found {found}, whose AutoTVM lacks a module: {error}. {_WHAT_TO_DO}") from error
        raise ImportError(f"found {found}, which has no AutoTVM: it was removed in TVM 0.20. {_WHAT_TO_DO}") from error
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise ImportError(f"found {found}, whose AutoTVM cannot be imported: {reason}. {_WHAT_TO_DO}") from error
