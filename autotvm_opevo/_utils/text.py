"""Numbers and messages as text."""

from __future__ import annotations


def milliseconds(seconds: float) -> str:
    """Three digits or more, however short.

    >>> milliseconds(0.0415), milliseconds(2.13e-6)
    ('41.500', '0.00213')
    """
    return f"{seconds * 1e3:.3f}" if seconds >= 1e-3 else f"{seconds * 1e3:.3g}"


def pluralize(n: int, what: str) -> str:
    """A number of things, in words.

    >>> pluralize(1, "trial"), pluralize(2, "trial")
    ('1 trial', '2 trials')
    """
    return f"{n} {what}{'' if n == 1 else 's'}"


def last_line(text: str | None) -> str:
    """What an error's message says in the end.

    >>> last_line("Traceback ...\\n  RuntimeError: no device\\n")
    'RuntimeError: no device'
    """
    lines = [line.strip() for line in (text or "").splitlines() if line.strip()]
    return lines[-1] if lines else ""
