"""Calls that may never return."""

import os
import signal
import threading
import time

import pytest

from autotvm_opevo._utils.timeouts import run_with_timeout


def test_returns_raises_or_times_out():
    assert run_with_timeout(60, lambda: 7, "seven") == 7
    with pytest.raises(ZeroDivisionError):
        run_with_timeout(60, lambda: 1 // 0, "nothing")
    with pytest.raises(TimeoutError, match=r"waited 0.1 seconds for Godot"):
        run_with_timeout(0.1, lambda: time.sleep(60), "Godot")


def test_after_ctrl_c_the_call_may_return():
    interrupted, returned = threading.Event(), []

    def call():
        os.kill(os.getpid(), signal.SIGINT)
        interrupted.wait(60)
        returned.append(True)

    before = signal.signal(
        signal.SIGINT,
        lambda *_: (interrupted.set(), signal.default_int_handler(signal.SIGINT, None)),
    )
    try:
        with pytest.raises(KeyboardInterrupt):
            run_with_timeout(60, call, "the call", grace=60)
    finally:
        signal.signal(signal.SIGINT, before)
    assert returned
