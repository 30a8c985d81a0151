"""The command line: ``autotvm-opevo``, or ``python -m autotvm_opevo``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module

from autotvm_opevo._utils.cpu_cores import use_all_cores
from autotvm_opevo._utils.text import program
from autotvm_opevo._version import __version__
from autotvm_opevo.cli.command import Parser

# The modules of the commands.
_COMMANDS = ("tune", "compare", "report", "doctor")
_EXAMPLES = """examples:
  %(prog)s doctor
  %(prog)s tune --network alexnet --log alexnet.json
  %(prog)s compare a.best.json b.best.json --network alexnet
  %(prog)s report alexnet.json
  %(prog)s report alexnet.json -o report.html

Each command has its own --help with more examples.

Tune tensor operators and networks for Apache TVM with OpEvo.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command.

    Parameters
    ----------
    arguments : sequence of str, optional
        The command line without the program's name; that of this process by default.

    Returns
    -------
    int
        The exit status.

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
    return str(error)


def _parser(arguments: Sequence[str]) -> argparse.ArgumentParser:
    """The parser for a command line: of all commands, unless it begins with the name of one."""
    parser = Parser(prog=program(), description=_EXAMPLES)
    parser.add_argument("--version", action="version", version=f"autotvm_opevo {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for name in [name for name in _COMMANDS if name in arguments[:1]] or _COMMANDS:
        import_module(f"autotvm_opevo.cli.{name}").add(commands)
    return parser
