"""Import the TVM that an adapter needs, or say what is installed and what to do."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

# The versions that TVM's frontends can read; the same as in the extra ``onnx``.
ONNX = "onnx<1.19"


class RequirementError(ImportError):
    """A missing, broken or unsuitable TVM: what is installed instead, and a hint for the user.

    >>> str(RequirementError("no TVM", "Install one."))
    'found no TVM. Install one.'
    """

    def __init__(self, problem: str, what_to_do: str) -> None:
        super().__init__(f"found {problem}. {what_to_do}")
        self.problem = problem
        self.what_to_do = what_to_do


def require(module: str, name: str, lacks: Callable[[], str], what_to_do: str) -> str:
    """Import a module of TVM, such as ``"tvm.autotvm"``, and return the TVM's version and folder.

    Raises `RequirementError` if it cannot be imported. `name` is the module's in error messages,
    such as ``"AutoTVM"``; `lacks` returns why a TVM without it lacks it.
    """

    def load(module: str, what: str, absent: Callable[[], str]) -> Any:
        try:
            return import_module(module)
        except Exception as error:  # OSError if a library cannot be loaded; others occur, too
            problem = f"{what} cannot be imported: {type(error).__name__}: {error}"
            if isinstance(error, ModuleNotFoundError):
                is_absent = f"{module}.".startswith(f"{error.name}.")
                problem = absent() if is_absent else f"{what} lacks a module: {error}"
            raise RequirementError(problem, what_to_do) from error

    tvm = load("tvm", "a TVM that", lambda: "no TVM: there is no module 'tvm'")
    number = getattr(tvm, "__version__", "of unknown version")
    version = f"TVM {number} in {getattr(tvm, '__path__', '?')[0]}"
    load(module, f"{version}, whose {name}", lambda: f"{version}, {lacks()}")
    return version
