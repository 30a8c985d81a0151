"""The common form of all commands' help and errors."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, NoReturn


class Parser(argparse.ArgumentParser):
    """A parser whose help keeps the line breaks of its texts, and whose errors do not bury the
    message under all options.

    Options have to be written out: a new option must not change what an old command means.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(
            formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False, **options
        )

    def error(self, message: str) -> NoReturn:
        """Print the first line of the usage and the error, and exit with status 2."""
        first, *more = self.format_usage().splitlines()
        self.exit(2, f"{first}{' ...' if more else ''}\n{self.prog}: error: {message}\n")


def command(
    commands: Any,
    name: str,
    summary: str,
    examples: str,
    status: str,
    run: Callable[[argparse.Namespace], int],
    runs_kernels: bool = False,
) -> argparse.ArgumentParser:
    """Add a command whose help begins with examples and ends with its exit statuses.

    Parameters
    ----------
    commands : object
        What ``add_subparsers`` of the program's parser returned.
    name, summary : str
        The command and its line in the program's help.
    examples, status : str
        The first and the last paragraph of the command's help; ``%(prog)s`` in them stands for
        program and command.
    run : callable
        Takes the parsed options and returns the exit status.
    runs_kernels : bool
        Whether TVM may run kernels, which then use all cores.

    Returns
    -------
    argparse.ArgumentParser
        The command's parser, for its arguments.
    """
    parser: argparse.ArgumentParser = commands.add_parser(
        name, help=summary, description=examples, epilog=status
    )
    parser.set_defaults(run=run, runs_kernels=runs_kernels)
    return parser
