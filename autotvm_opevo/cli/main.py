"""The command line: ``python -m autotvm_opevo``. One command a file."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from autotvm_opevo._version import __version__
from autotvm_opevo.cli import doctor, report, tune

_EXAMPLES = """examples:
  python -m autotvm_opevo doctor
  python -m autotvm_opevo tune --network alexnet --target "llvm -mcpu=core-avx2" --log alexnet.json
  python -m autotvm_opevo report alexnet.json -o report.html

Each has a --help of its own, with more of them.

"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit status."""
    options = _parser().parse_args(arguments)
    try:
        status: int = options.run(options)
        return status
    except KeyboardInterrupt:
        return 130
    except (ImportError, OSError, RuntimeError, ValueError) as error:
        print(f"autotvm_opevo: {_words(error)}", file=sys.stderr)
        return 2 if isinstance(error, ValueError) else 1


def _words(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def _parser() -> argparse.ArgumentParser:
    text = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="python -m autotvm_opevo", description=f"{_EXAMPLES}Tune for Apache TVM with OpEvo.", formatter_class=text
    )
    parser.add_argument("--version", action="version", version=f"autotvm_opevo {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for command in (tune, report, doctor):
        command.add(commands)
    return parser
