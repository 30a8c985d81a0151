"""A shortcut for TVM's slowest import."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from autotvm_opevo._utils.timeouts import say_if_long


def import_tensor_intrinsics() -> None:
    """Import ``tvm.s_tir.tensor_intrin``, which every tuning needs, in a fraction of the time.

    TVM's parser calls ``inspect.stack()`` for each of hundreds of functions. For each of about
    thirty frames, most of the import system itself, that searches all loaded modules and reads
    source files, of which the parser looks at one line.
    """
    with _stacks_without_source(), say_if_long("importing TVM's tensor intrinsics"):
        import tvm.s_tir.tensor_intrin  # noqa: F401


@contextmanager
def _stacks_without_source() -> Iterator[None]:
    """Let ``inspect.stack`` return frames without their lines of source code, as where there is no
    source file.
    """

    def stack(context: int = 1) -> list[inspect.FrameInfo]:
        frame: FrameType | None = sys._getframe(1)
        frames: list[inspect.FrameInfo] = []
        while frame:
            frames.append(
                inspect.FrameInfo(
                    frame,
                    frame.f_code.co_filename,
                    frame.f_lineno,
                    frame.f_code.co_name,
                    None,
                    None,
                )
            )
            frame = frame.f_back
        return frames

    before, inspect.stack = inspect.stack, stack
    try:
        yield
    finally:
        inspect.stack = before
