"""What holds for all tests with today's TVM."""

import logging

import pytest
import sketches  # noqa: F401  pays for TVM's slowest import before any test's clock runs


@pytest.fixture(autouse=True)
def _propagate():
    """TVM's loggers stop propagating when it tunes; pytest would add a handler to them, over which TVM stumbles the next time."""
    yield
    logging.getLogger("tvm.s_tir.meta_schedule").propagate = True
