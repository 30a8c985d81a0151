"""TVM's loggers, which each run of MetaSchedule configures for the whole process."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

_NAME = "tvm.s_tir.meta_schedule"
# Of the loggers of tasks.
_TASK_PREFIX = f"{_NAME}.logging.task_"


@contextmanager
def quiet_logging() -> Iterator[None]:
    """Let TVM log warnings, and every step to files in the work directory only; then restore its loggers and close the files."""
    logger = logging.getLogger(_NAME)
    level, propagate, handlers = logger.level, logger.propagate, list(logger.handlers)
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        tasks = [logging.getLogger(name) for name in logging.root.manager.loggerDict if name.startswith(_TASK_PREFIX)]
        for one in (logger, *tasks):
            for handler in [handler for handler in one.handlers if handler not in handlers]:
                one.removeHandler(handler)
                handler.close()
        logger.handlers[:] = handlers
        logger.propagate = propagate
        logger.setLevel(level)


@contextmanager
def without_nameless_handlers() -> Iterator[None]:
    """Remove the handlers that have no name while TVM configures its logger, over which it trips."""
    logger = logging.getLogger(_NAME)
    nameless = [handler for handler in logger.handlers if handler.get_name() is None]
    for handler in nameless:
        logger.removeHandler(handler)
    try:
        yield
    finally:
        for handler in nameless:
            logger.addHandler(handler)
