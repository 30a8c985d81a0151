"""Fixtures of all MetaSchedule tests."""

import logging

import pytest
import sketches  # noqa: F401  TVM's slowest import, outside of any test's time limit


@pytest.fixture(autouse=True)
def _propagate():
    """Undo that TVM's own functions stop its loggers from propagating: TVM trips over the handler
    that pytest then adds.
    """
    yield
    logging.getLogger("tvm.s_tir.meta_schedule").propagate = True
