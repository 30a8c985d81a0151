"""Is there the TVM that an adapter needs? If not, say what there is instead, and what to do. Knows no TVM."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

# What TVM's frontends can read; as the extra ``onnx`` has it.
ONNX = "onnx<1.19"


def require(module: str, name: str, lacks: Callable[[], str], what_to_do: str) -> str:
    """Import a module of TVM's; returns which TVM was found, in words.

    Parameters
    ----------
    module : str
        ``"tvm.autotvm"`` for example.
    name : str
        What it is called.
    lacks : callable
        Says why a TVM without it has none, in words that follow its version.
    what_to_do : str
        For the user.

    Raises
    ------
    ImportError
        If there is none; says what was found instead.
    """
    try:
        tvm = import_module("tvm")
    except ModuleNotFoundError as error:
        if error.name != "tvm":
            raise ImportError(f"found a TVM that lacks a module of its own: {error}. {what_to_do}") from error
        raise ImportError(f"found no TVM: there is no module 'tvm'. {what_to_do}") from error
    except Exception as error:  # a library that cannot be loaded raises OSError, and others raise worse
        raise ImportError(f"found a TVM that cannot be imported: {type(error).__name__}: {error}. {what_to_do}") from error
    found = f"TVM {getattr(tvm, '__version__', 'of unknown version')} in {getattr(tvm, '__path__', ['?'])[0]}"
    try:
        import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise ImportError(f"found {found}, whose {name} lacks a module: {error}. {what_to_do}") from error
        raise ImportError(f"found {found}, {lacks()}. {what_to_do}") from error
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise ImportError(f"found {found}, whose {name} cannot be imported: {reason}. {what_to_do}") from error
    return found
