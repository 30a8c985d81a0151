"""The command line, and the common form of all commands' help and errors."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NoReturn

from autotvm_opevo._utils.text import last_line, program
from autotvm_opevo._version import __version__

# The modules of the commands; each has a line for the program's help, the paragraphs of its own
# help before and after the options, and functions that add these and run it.
_COMMANDS = ("tune", "compare", "report", "doctor")
_DESCRIPTION = "Tune operators and networks for Apache TVM, and compare and report the results."
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
    """Run a command, this process's by default, and return its exit status; raises `SystemExit` if
    the arguments cannot be parsed, or ask for help or the version.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    options = _parser(arguments).parse_args(arguments)
    try:
        status: int = options.run(options)
        return status
    except KeyboardInterrupt:
        return 130
    except (ImportError, OSError, RuntimeError, ValueError) as error:
        text = str(error)
        if isinstance(error, OSError) and error.filename and error.strerror:
            text = f"{error.filename}: {error.strerror}"
        elif text.startswith(_TRACEBACK):
            text = last_line(text)
        print(f"autotvm_opevo: {text}", file=sys.stderr)
        return 2 if isinstance(error, ValueError) else 1


def _parser(arguments: Sequence[str]) -> argparse.ArgumentParser:
    """The parser for a command line: of all commands, unless it begins with the name of one."""
    parser = Parser(prog=program(), description=_DESCRIPTION, epilog=_EXAMPLES)
    parser.add_argument("--version", action="version", version=f"autotvm_opevo {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for name in [name for name in _COMMANDS if name in arguments[:1]] or _COMMANDS:
        module = import_module(f"autotvm_opevo.cli.{name}")
        command = commands.add_parser(
            name,
            help=module.SUMMARY,
            description=module.DESCRIPTION,
            epilog=f"{module.EXAMPLES}\n{module.STATUS}",
        )
        module.add_arguments(command)
        command.set_defaults(run=module.run)
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

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Refuse other arguments here, or the program would, with a usage without the command's."""
        namespace, others = super().parse_known_args(args, namespace)
        if others:
            self.error(f"unrecognized arguments: {' '.join(others)}")
        return namespace, others

    def error(self, message: str) -> NoReturn:
        """Print the first line of the usage and the error, and exit with status 2."""
        first, *more = self.format_usage().splitlines()
        self.exit(2, f"{first}{' ...' if more else ''}\n{self.prog}: error: {message}\n")
