"""Calls that may never return."""

import io
import math
import os
import re
import signal
import sys
import threading
import time
from types import SimpleNamespace

import pytest

from autotvm_opevo._utils import timeouts
from autotvm_opevo._utils.timeouts import run_compiler, run_with_timeout, say_if_long


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


def test_what_takes_long_says_what_it_is_and_what_it_has_done(monkeypatch, capsys):
    monkeypatch.setattr(timeouts, "SILENT", 0.01)
    done, text = [], ""
    with say_if_long("counting", lambda: ", ".join(done)):
        while "\n" not in text:
            text += capsys.readouterr().err
        done.append("one")
        while "one\n" not in text:
            text += capsys.readouterr().err
    first, *_, last = text.splitlines()
    assert re.fullmatch(r"counting: \d+ s so far", first)
    assert re.fullmatch(r"counting: \d+ s so far, one", last)


def test_in_a_terminal_a_line_is_written_over(monkeypatch):
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(timeouts, "SILENT", 0.01)
    done = ["much"]
    with say_if_long("counting", lambda: ", ".join(done)):
        while "much\r" not in terminal.getvalue():
            time.sleep(0.01)
        done.clear()
        while not re.search(r"far *\r", terminal.getvalue()):
            time.sleep(0.01)
    *lines, last = terminal.getvalue().removesuffix("\n").split("\r")
    assert "\n" not in "".join(lines)
    assert last == lines[-1]
    assert len(last) >= len(lines[0])  # nothing of it is left


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("is_closed", [True, False])
def test_without_a_standard_error_nothing_is_said(monkeypatch, capsys, is_closed):
    stream = io.StringIO()
    stream.close()
    monkeypatch.setattr(sys, "stderr", stream if is_closed else None)
    monkeypatch.setattr(timeouts, "SILENT", 0.01)
    said = threading.Event()
    with say_if_long("counting", lambda: said.set() or ""):
        assert said.wait(60)
    assert not capsys.readouterr().out


def test_a_standard_error_that_only_writes_is_enough(monkeypatch):
    """As what copies it to a file."""
    written = []
    monkeypatch.setattr(sys, "stderr", SimpleNamespace(write=written.append, flush=lambda: None))
    monkeypatch.setattr(timeouts, "SILENT", 0.01)
    said = threading.Event()
    with say_if_long("counting", lambda: said.set() or ""):
        assert said.wait(60)
    assert re.search(r"counting: \d+ s so far", "".join(written))


def test_what_is_quick_says_nothing(monkeypatch, capsys):
    monkeypatch.setattr(timeouts, "_busy_until", -math.inf)
    with say_if_long("counting"):
        pass
    assert not capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (TypeError("no such kernel"), "TypeError: no such kernel"),
        (
            RuntimeError("Traceback:\n  1: tvm::Check()\nInternalError: n == m"),
            "InternalError: n == m",
        ),
        (KeyError(), "KeyError"),
    ],
)
def test_errors_of_the_compiler_say_in_a_line_what_it_did(error, message):
    def fail():
        raise error

    with pytest.raises(RuntimeError) as caught:
        run_compiler(fail, "building the network")
    assert str(caught.value) == f"TVM failed while building the network: {message}"
    assert caught.value.__cause__ is error


@pytest.mark.parametrize("error", [ValueError("mod must have\n  a function"), OSError("disk full")])
def test_errors_about_what_was_given_are_raised_as_they_are(error):
    def fail():
        raise error

    with pytest.raises(type(error)) as caught:
        run_compiler(fail, "building the network")
    assert caught.value is error
