"""The commands of ``python -m autotvm_opevo``, one a file. Thin shells over the public functions."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any


def command(
    commands: Any, name: str, summary: str, examples: str, status: str, run: Callable[[argparse.Namespace], int]
) -> argparse.ArgumentParser:
    """Add a command whose help begins with examples and ends with what its exit status means."""
    text = argparse.RawDescriptionHelpFormatter
    parser: argparse.ArgumentParser = commands.add_parser(
        name, help=summary, description=examples, epilog=status, formatter_class=text
    )
    parser.set_defaults(run=run)
    return parser
