"""Numbers and messages as text."""

import pytest

from autotvm_opevo._utils.text import command_line, last_line, milliseconds, pluralize


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0, "0"), (2.13e-6, "0.00213"), (0.0002, "0.2"), (0.0415, "41.500"), (3.0, "3000.000")],
)
def test_short_times_keep_their_digits(seconds, text):
    assert milliseconds(seconds) == text


@pytest.mark.parametrize(("n", "text"), [(0, "0 trials"), (1, "1 trial"), (2, "2 trials")])
def test_all_counts_but_one_are_plural(n, text):
    assert pluralize(n, "trial") == text


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
