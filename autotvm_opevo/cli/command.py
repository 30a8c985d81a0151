"""The common form of all commands' help."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any


def command(
    commands: Any, name: str, summary: str, examples: str, status: str, run: Callable[[argparse.Namespace], int]
) -> argparse.ArgumentParser:
    """Add a command whose help begins with examples and ends with its exit statuses.

    Parameters
    ----------
    commands : object
        What ``add_subparsers`` of the program's parser returned.
    name, summary : str
        The command and its line in the program's help.
    examples, status : str
        The first and the last paragraph of the command's help; ``%(prog)s`` in them stands for program and command.
    run : callable
        Takes the parsed options and returns the exit status.

    Returns
    -------
    argparse.ArgumentParser
        The command's parser, for its arguments.
    """
    text = argparse.RawDescriptionHelpFormatter
    parser: argparse.ArgumentParser = commands.add_parser(
        name, help=summary, description=examples, epilog=status, formatter_class=text
    )
    parser.set_defaults(run=run)
    return parser
