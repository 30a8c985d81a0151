"""TVM's slowest import, made quicker."""

from __future__ import annotations

import inspect
from typing import Any
from unittest import mock


def import_tensor_intrinsics() -> None:
    """Import ``tvm.s_tir.tensor_intrin``, as every tuning does, in less time.

    TVM parses the intrinsics' sources and asks ``inspect.getmodule`` about the same few functions again and again, which looks
    through all modules each time. During this import, and only then, it remembers what it said.
    """
    real = inspect.getmodule
    remembered: dict[Any, Any] = {}

    def getmodule(thing: Any, _filename: Any = None) -> Any:
        key = id(getattr(thing, "__code__", thing)), _filename
        if key not in remembered:
            remembered[key] = thing, real(thing, _filename)  # the thing, too: its id is its own as long as it lives
        return remembered[key][1]

    with mock.patch("inspect.getmodule", getmodule):
        import tvm.s_tir.tensor_intrin  # noqa: F401
