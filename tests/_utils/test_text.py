"""Numbers and messages as text."""

import pytest

from autotvm_opevo._utils.text import last_line, milliseconds, pluralize


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
