"""Numbers and messages as text."""

import pytest

from autotvm_opevo._utils.text import command_line, last_line


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (None, ""),
        ("", ""),
        ("\n \n", ""),
        ("one", "one"),
        ("Traceback:\n  File\nValueError: no\n\n  ", "ValueError: no"),
    ],
)
def test_last_line_skips_blank_lines(text, line):
    assert last_line(text) == line


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        (
            ["/x/bin/autotvm-opevo", "tune", "--target", "llvm -mcpu=native"],
            "autotvm-opevo tune --target 'llvm -mcpu=native'",
        ),
        (["/x/site-packages/autotvm_opevo/__main__.py", "tune"], "python -m autotvm_opevo tune"),
        (["tune my net.py", "--seed", "1"], "python 'tune my net.py' --seed 1"),
        (["-c"], ""),
        ([""], ""),
        ([], ""),
    ],
)
def test_a_command_reads_as_one_would_type_it(monkeypatch, arguments, command):
    monkeypatch.setattr("sys.argv", arguments)
    assert command_line() == command


def test_a_notebook_has_no_command(monkeypatch):
    monkeypatch.setattr("sys.argv", ["/x/ipykernel_launcher.py", "-f", "/x/kernel-8a.json"])
    monkeypatch.setattr("builtins.__IPYTHON__", True, raising=False)
    assert command_line() == ""
