"""The command that started this process."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path


def program() -> str:
    """What the user typed to run this package: the console script's name, or the module's."""
    return (
        "autotvm-opevo" if Path(sys.argv[0]).stem == "autotvm-opevo" else "python -m autotvm_opevo"
    )


def command_line() -> str:
    """The command that this process runs, as one would type it; empty in an interactive session."""
    program = Path(sys.argv[0] if sys.argv else "")
    if program.name == "__main__.py":
        words = ["python", "-m", program.parent.name]
    elif program.suffix == ".py":
        words = ["python", str(program)]
    else:
        words = [program.name] if program.name not in ("", "-c", "-m") else []
    return shlex.join([*words, *sys.argv[1:]]) if words else ""
