"""The progress display on a pseudo-terminal and elsewhere."""

import fcntl
import io
import os
import pty
import struct
import subprocess
import sys
import termios
from contextlib import suppress
from types import SimpleNamespace

import pytest

from autotvm_opevo._utils import timeouts
from autotvm_opevo.tuning.result import UNLIMITED, ProgressDisplay, Row, table

ROWS = [
    Row("conv2d 1x3x8x8", 8, 0.002, 16.0, 0.8, "build timeout 2", bound=0.0015),
    Row("dense 8x8", 4, float("inf"), 0.0, 0.0, "runtime device 4", "boom"),
]


def test_outside_a_terminal_a_line_is_written_per_round():
    file = io.StringIO()
    with ProgressDisplay(24, file=file) as display:
        display.show(ROWS[:1], 0, 0.002, end_of_round=False)
        assert file.getvalue() == ""
        display.show(ROWS[:1], 0, 0.002)
    line = file.getvalue()
    best = "2.000 ms, 16.0 GFLOPS, 80% of the network, failed: build timeout 2"
    assert line.startswith(f"8/24 trials, network 2.000 ms: conv2d 1x3x8x8 8 trials, {best}, ")
    assert line.endswith(" left\n")
    assert "\r" not in line


def test_outside_a_terminal_lines_are_written_during_a_long_round(monkeypatch):
    monkeypatch.setattr(timeouts, "SILENT", 0.0)
    file = io.StringIO()
    with ProgressDisplay(24, file=file) as display:
        display.show(ROWS[:1], 0, 0.002, end_of_round=False)
    assert file.getvalue().startswith("8/24 trials, network 2.000 ms: conv2d 1x3x8x8 8 trials")


def test_a_dominant_error_is_reported_once():
    file = io.StringIO()
    with ProgressDisplay(24, file=file) as display:
        for _ in range(3):
            display.show(ROWS, 1, 0.002)
    assert file.getvalue().count("dense 8x8: all 4 trials failed, mostly: boom") == 1
    assert "none succeeded, failed: runtime device 4" in file.getvalue()


def test_time_left_is_until_the_trials_or_the_time_limit_run_out():
    file = io.StringIO()
    with ProgressDisplay(10**9, time_limit=30.0, file=file) as display:
        display.show(ROWS[:1], 0, 0.002)
    # a busy machine takes seconds
    assert any(f"00:{seconds} left" in file.getvalue() for seconds in range(20, 31))


@pytest.mark.parametrize("live", [False, True])
def test_where_only_the_time_is_limited_no_number_of_trials_is_shown(live):
    file = io.StringIO()
    file.isatty = lambda: live
    with ProgressDisplay(UNLIMITED, time_limit=30.0, file=file) as display:
        display.show(ROWS[:1], 0, 0.002)
        assert "8 trials" in file.getvalue()
    assert str(UNLIMITED) not in file.getvalue()
    assert " left" in file.getvalue()


def test_the_table_has_every_task_and_its_dominant_error():
    lines = table(ROWS).splitlines()
    assert [line.split()[0] for line in lines] == ["task", "conv2d", "dense", "all"]
    assert lines[1].split()[-8:] == ["8", "2.000", "16.0", "80%", "75%", "build", "timeout", "2"]
    assert lines[2].split()[-7:] == ["-", "-", "-", "-", "runtime", "device", "4"]
    assert lines[3].strip() == "all of them failed, mostly: boom"


def test_the_table_fits_on_80_columns():
    """The mark of the current task takes one more."""
    row = Row("conv2d_NCHWc.x86 1x512x7x7 512x512x3x3", 10_000, 0.0123, 1234.5, 1.0, "")
    assert max(map(len, table([row]).splitlines())) + 1 <= 80


def test_a_latency_of_some_tasks_only_is_marked():
    file = io.StringIO()
    with ProgressDisplay(24, file=file) as display:
        display.show([ROWS[0], Row("dense 8x8", 0, float("inf"), 0.0, 0.0)], 0, 0.002)
        display.show(ROWS, 0, 0.002)
    assert ["(1 of 2 tasks)" in line for line in file.getvalue().splitlines()] == [
        True,
        False,
        False,
    ]


@pytest.mark.parametrize("open_pair", [os.pipe, pty.openpty])
def test_a_reader_or_a_terminal_that_is_gone_ends_no_run(open_pair):
    """As of ``2>&1 | tee``, or of an SSH session."""
    ours, theirs = open_pair()
    file = open(theirs, "w", buffering=1)  # noqa: SIM115 cannot be closed without an error
    with ProgressDisplay(24, file=file) as display:
        display.show(ROWS[:1], 0, 0.002)
        os.close(ours)
        display.show(ROWS[:1], 0, 0.002)
        display.write("a line")
    with suppress(OSError):
        file.close()


@pytest.mark.parametrize("file", [None, SimpleNamespace(write=lambda text: None)])
def test_standard_error_may_be_replaced_or_missing(monkeypatch, capfd, file):
    """By an object that copies it, or in a daemon."""
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", file)
        with ProgressDisplay(24) as display:
            display.show(ROWS[:1], 0, 0.002)
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize("lines", [24, 4])
def test_a_terminal_is_redrawn_in_place(lines):
    """Even if the table is longer than the terminal."""
    script = (
        "import sys; from autotvm_opevo.tuning.result import ProgressDisplay, Row\n"
        "with ProgressDisplay(100) as display:\n"
        "    for i in range(1, 51):\n"
        "        display.show([Row(f'task{j}', i, 0.001 / i, 1.0 * i, 0.1) for j in "
        "range(10)], i % 10, 0.01 / i, i % 5 == 0)\n"
        "print('after', file=sys.stderr)\n"
    )
    ours, theirs = pty.openpty()
    fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", lines, 110, 0, 0))
    process = subprocess.Popen([sys.executable, "-c", script], stderr=theirs, stdin=theirs)
    os.close(theirs)
    output = b""
    while True:
        try:
            chunk = os.read(ours, 65536)
        except OSError:
            break
        if not chunk:
            break
        output += chunk
    assert process.wait(60) == 0
    text = output.decode()
    assert "\r" in text
    assert "/100 trials |" in text
    assert "left, network" in text
    assert ("task9" in text) == (lines > 12)
    assert text.rstrip().endswith("after")
