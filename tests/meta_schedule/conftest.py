"""Fixtures of all MetaSchedule tests."""

import logging

import pytest
import sketches  # noqa: F401  TVM's slowest import, outside of any test's time limit
from compared_networks import time_two_rounds


@pytest.fixture(autouse=True)
def _propagate():
    """Undo that TVM's own functions stop its loggers from propagating: TVM trips over the handler
    that pytest then adds.
    """
    yield
    logging.getLogger("tvm.s_tir.meta_schedule").propagate = True


@pytest.fixture
def two_rounds(monkeypatch):
    """Networks are timed for a moment."""
    time_two_rounds(monkeypatch)
