"""A shortcut for TVM's slowest import."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator
from contextlib import contextmanager


def import_tensor_intrinsics() -> None:
    """Import ``tvm.s_tir.tensor_intrin``, which every tuning needs, in a fraction of the time.

    TVM's parser calls ``inspect.stack()`` for every intrinsic. The stack holds about thirty frames of the import system itself,
    and for each of them `inspect` searches all loaded modules in vain, since frozen modules have no file.
    """
    with _import_system_in_inspect_cache():
        import tvm.s_tir.tensor_intrin  # noqa: F401


@contextmanager
def _import_system_in_inspect_cache() -> Iterator[None]:
    """Tell `inspect`'s cache of modules by file which modules the import system's frames belong to."""
    cache = inspect.modulesbyfile
    names = ("importlib._bootstrap", "importlib._bootstrap_external")
    entries = {os.path.normcase(os.path.abspath(f"<frozen {name}>")): name for name in names}
    cache.update(entries)
    try:
        yield
    finally:
        for file in entries:
            cache.pop(file, None)
