"""Formatting of numbers and messages."""

from __future__ import annotations


def milliseconds(seconds: float) -> str:
    """Format seconds as milliseconds, with three decimals, or three significant digits if that is less than one.

    >>> milliseconds(0.0415), milliseconds(2.13e-6)
    ('41.500', '0.00213')
    """
    return f"{seconds * 1e3:.3f}" if seconds >= 1e-3 else f"{seconds * 1e3:.3g}"


def pluralize(n: int, noun: str) -> str:
    """Format a count with its noun.

    >>> pluralize(1, "trial"), pluralize(2, "trial")
    ('1 trial', '2 trials')
    """
    return f"{n} {noun}{'' if n == 1 else 's'}"


def last_line(text: str | None) -> str:
    """Return the last non-blank line of an error message; empty if there is none.

    >>> last_line("Traceback ...\\n  RuntimeError: no device\\n")
    'RuntimeError: no device'
    """
    lines = [line.strip() for line in (text or "").splitlines() if line.strip()]
    return lines[-1] if lines else ""
