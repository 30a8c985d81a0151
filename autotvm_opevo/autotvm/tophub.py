"""TVM's pre-tuned configurations (TopHub), which this package does without."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from tvm.autotvm.tophub import AUTOTVM_TOPHUB_LOC_VAR, AUTOTVM_TOPHUB_NONE_LOC


@contextmanager
def without_tophub() -> Iterator[None]:
    """Keep TVM from downloading, as templates for ARM and GPUs do for a configuration that is not
    tuned, without a time limit.
    """
    before = os.environ.get(AUTOTVM_TOPHUB_LOC_VAR)
    os.environ[AUTOTVM_TOPHUB_LOC_VAR] = AUTOTVM_TOPHUB_NONE_LOC
    try:
        yield
    finally:
        if before is None:
            del os.environ[AUTOTVM_TOPHUB_LOC_VAR]
        else:
            os.environ[AUTOTVM_TOPHUB_LOC_VAR] = before
