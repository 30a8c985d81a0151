"""Import the TVM that an adapter needs, or raise an error that names what is installed and what to
do.
"""

from __future__ import annotations

import atexit
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path

# The versions that TVM's frontends can read; the same as in the extra ``onnx``.
ONNX = "onnx<1.19"


class RequirementError(ImportError):
    """A missing, broken or unsuitable TVM.

    Parameters
    ----------
    found : str
        What is installed instead.
    what_to_do : str
        A hint for the user.

    Examples
    --------
    >>> str(RequirementError("no TVM", "Install one."))
    'found no TVM. Install one.'
    """

    def __init__(self, found: str, what_to_do: str) -> None:
        super().__init__(f"found {found}. {what_to_do}")
        self.found = found
        self.what_to_do = what_to_do


def require(module: str, name: str, lacks: Callable[[], str], what_to_do: str) -> str:
    """Import a module of TVM and describe the TVM it belongs to.

    Parameters
    ----------
    module : str
        The module, such as ``"tvm.autotvm"``.
    name : str
        Its name in error messages, such as ``"AutoTVM"``.
    lacks : callable
        Returns why a TVM without the module lacks it; follows the TVM's version in the message.
    what_to_do : str
        A hint for the user, at the end of the message.

    Returns
    -------
    str
        Version and folder of the TVM.

    Raises
    ------
    RequirementError
        If the module cannot be imported.
    """
    _remove_memoize_folder_at_exit()
    try:
        tvm = import_module("tvm")
    except ModuleNotFoundError as error:
        if error.name != "tvm":
            raise RequirementError(
                f"a TVM that lacks a module of its own: {error}", what_to_do
            ) from error
        raise RequirementError("no TVM: there is no module 'tvm'", what_to_do) from error
    except Exception as error:  # OSError if its library cannot be loaded; others occur, too
        reason = f"{type(error).__name__}: {error}"
        raise RequirementError(f"a TVM that cannot be imported: {reason}", what_to_do) from error
    version = (
        f"TVM {getattr(tvm, '__version__', 'of unknown version')} in "
        f"{getattr(tvm, '__path__', ['?'])[0]}"
    )
    try:
        import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise RequirementError(
                f"{version}, whose {name} lacks a module: {error}", what_to_do
            ) from error
        raise RequirementError(f"{version}, {lacks()}", what_to_do) from error
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise RequirementError(
            f"{version}, whose {name} cannot be imported: {reason}", what_to_do
        ) from error
    return version


_MEMOIZE_FOLDER = ".pkl_memoize_py3"
_memoize_folders: set[Path] = set()


def _remove_memoize_folder_at_exit() -> None:
    """Clean up after TVMs that create an empty folder in the working directory whenever they are
    imported.

    Their worker processes do so, too, therefore the folder is removed when this process ends, not
    right after the import.
    """
    folder = Path.cwd() / _MEMOIZE_FOLDER
    if folder not in _memoize_folders:
        _memoize_folders.add(folder)
        atexit.register(_remove_if_unused, folder)


def _remove_if_unused(folder: Path) -> None:
    caches = getattr(
        getattr(sys.modules.get("tvm.contrib.pickle_memoize"), "Cache", None), "cache_by_key", {}
    )
    if any(cache.save_at_exit for cache in caches.values()):
        return  # TVM writes into the folder after this
    with suppress(OSError):  # there is none, or it has files
        folder.rmdir()
