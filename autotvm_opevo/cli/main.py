"""The command line: ``autotvm-opevo``, or ``python -m autotvm_opevo``; and the common form of all
commands' help and errors.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, NoReturn

from autotvm_opevo._utils.cpu_cores import use_all_cores
from autotvm_opevo._utils.text import last_line, program
from autotvm_opevo._version import __version__

# The modules of the commands.
_COMMANDS = ("tune", "compare", "report", "doctor")
_DESCRIPTION = "Tune operators and networks for Apache TVM, and tell what tuning has gained."
# How errors of TVM begin, which say in their last line what is wrong.
_TRACEBACK = "Traceback (most recent call last):"
_EXAMPLES = """examples:
  %(prog)s doctor
  %(prog)s tune --network alexnet --log alexnet.json
  %(prog)s compare a.best.json b.best.json --network alexnet
  %(prog)s report alexnet.json
  %(prog)s report alexnet.json -o report.html

Each command has its own --help, with more examples.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command, this process's by default, and return its exit status.

    Raises
    ------
    SystemExit
        If the arguments cannot be parsed, or ask for help or the version.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    options = _parser(arguments).parse_args(arguments)
    try:
        if options.runs_kernels:
            use_all_cores()  # before TVM is imported; the result says on how many
        status: int = options.run(options)
        return status
    except KeyboardInterrupt:
        return 130
    except (ImportError, OSError, RuntimeError, ValueError) as error:
        print(f"autotvm_opevo: {_message(error)}", file=sys.stderr)
        return 2 if isinstance(error, ValueError) else 1


def _message(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}"
    text = str(error)
    return last_line(text) if text.startswith(_TRACEBACK) else text


def _parser(arguments: Sequence[str]) -> argparse.ArgumentParser:
    """The parser for a command line: of all commands, unless it begins with the name of one."""
    parser = Parser(prog=program(), description=_DESCRIPTION, epilog=_EXAMPLES)
    parser.add_argument("--version", action="version", version=f"autotvm_opevo {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for name in [name for name in _COMMANDS if name in arguments[:1]] or _COMMANDS:
        import_module(f"autotvm_opevo.cli.{name}").add(commands)
    return parser


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
    description: str,
    examples: str,
    status: str,
    run: Callable[[argparse.Namespace], int],
    runs_kernels: bool = False,
) -> argparse.ArgumentParser:
    """Add a command to what ``add_subparsers`` returned, given its line in the program's help, and
    what its own help says before and after the options; returns its parser.

    `run` takes the parsed options and returns the exit status. If TVM may run kernels, these use
    all cores.
    """
    parser: argparse.ArgumentParser = commands.add_parser(
        name, help=summary, description=description, epilog=f"{examples}\n{status}"
    )
    parser.set_defaults(run=run, runs_kernels=runs_kernels)
    return parser
