"""Numbers, messages and the command that started this process, as text."""

from __future__ import annotations

import builtins
import shlex
import sys
from pathlib import Path
from typing import Any
from unicodedata import category


def milliseconds(seconds: float) -> str:
    """Format seconds as milliseconds, with three decimals, or three significant digits if that is
    less than one.

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


def format_duration(seconds: float) -> str:
    """Format a duration with the unit that suits it.

    >>> format_duration(3.14), format_duration(100), format_duration(900), format_duration(9000)
    ('3.1 s', '100 s', '15 min', '2.5 h')
    """
    if seconds < 180:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def describe(name: str, options: dict[str, Any], seed: int | None) -> str:
    """Join a name, options and a seed.

    >>> describe("OpEvo", {"mutation_rate": 0.3}, None)
    'OpEvo mutation_rate=0.3'
    """
    text = "".join(f" {option}={value!r}" for option, value in options.items())
    return name + text + ("" if seed is None else f", seed {seed}")


def printable(text: Any) -> str:
    """Replace characters that a page cannot show: control characters and lone surrogates.

    >>> printable("conv2d\\x00\\ud800"), printable("größe")
    ('conv2d\ufffd\ufffd', 'größe')
    """
    return "".join("\ufffd" if category(c) in ("Cc", "Cs") else c for c in str(text))


def program() -> str:
    """What the user typed to run this package: the console script's name, or the module's."""
    name = Path(sys.argv[0]).stem
    return name if name == "autotvm-opevo" else "python -m autotvm_opevo"


def command_line() -> str:
    """The command that this process runs, as one would type it; empty in an interactive session or
    a notebook.
    """
    program = Path(sys.argv[0] if sys.argv else "")
    if hasattr(builtins, "__IPYTHON__"):
        return ""
    if program.name == "__main__.py":
        words = ["python", "-m", program.parent.name]
    elif program.suffix == ".py":
        words = ["python", str(program)]
    else:
        words = [program.name] if program.name not in ("", "-c", "-m") else []
    return shlex.join([*words, *sys.argv[1:]]) if words else ""
