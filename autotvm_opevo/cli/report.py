"""``report``: a page of what tuning runs have found."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from autotvm_opevo._utils.text import last_line
from autotvm_opevo.cli.command import command

_EXAMPLES = """examples:
  python -m autotvm_opevo report alexnet.json -o report.html          AutoTVM's log, of any tuner
  python -m autotvm_opevo report opevo.json xgb.json -o report.html   one over the other
  python -m autotvm_opevo report alexnet -o report.html               the folder of a MetaSchedule database
  python -m autotvm_opevo report alexnet.json --watch                 while it is being tuned, in a browser on this machine
  python -m autotvm_opevo report alexnet.json -o report.html --png pictures --csv tables

Make a page of what tuning runs have found. It is one file that needs nothing else, on a screen or on paper. Logs are only read.
"""
_STATUS = "exit status: 0 made; 1 a file could not be read or written; 2 a mistake on the command line, or a log that is none."


def add(commands: Any) -> None:
    """Add the command to a parser's."""
    report = command(commands, "report", "a page of what tuning runs have found", _EXAMPLES, _STATUS, _run)
    report.add_argument("logs", nargs="+", metavar="LOG", help="AutoTVM's log, or the folder of a MetaSchedule database")
    report.add_argument("-o", "--out", metavar="FILE", help="the page, report.html for example")
    report.add_argument("--title", default="", help="of the page (default: the logs' names)")
    report.add_argument("--png", metavar="DIR", help="all pictures as files, too")
    report.add_argument("--csv", metavar="DIR", help="all trials and what was seen of each knob as tables, too")
    report.add_argument("--watch", action="store_true", help="serve the page on 127.0.0.1, always of the latest trials")
    report.add_argument("--port", type=int, help="for --watch (default: any that is free)")
    report.add_argument(
        "--import",
        dest="modules",
        action="append",
        default=[],
        metavar="MODULE",
        help="a module or a file, my_templates.py, that registers templates of your own",
    )


def _run(options: argparse.Namespace) -> int:
    if options.watch:
        given = [f"--{name}" for name in ("out", "png", "csv") if getattr(options, name)]
        if given:
            raise ValueError(f"--watch writes no file, {given[0]} given: make the report when the run has ended")
    elif not options.out:
        raise ValueError("-o FILE is needed, report.html for example; or --watch, to follow a run")
    elif options.port is not None:
        raise ValueError("--port is for --watch alone")
    if options.port is not None and not 0 <= options.port < 65_536:
        raise ValueError(f"--port must be from 0 to 65535, {options.port} given")
    for module in options.modules:
        try:
            _import(module)
        except (Exception, SystemExit) as error:  # whatever a module of the user's raises
            raise ValueError(f"--import {module}: {type(error).__name__}: {last_line(str(error))}") from error
    if options.watch:
        from autotvm_opevo.reporting.serving import serve

        serve(options.logs, options.title, options.port or 0)
        return 0
    from autotvm_opevo.reporting import report

    print(f"report: {report(*options.logs, out=options.out, title=options.title, png=options.png, csv=options.csv)}")
    return 0


def _import(module: str) -> None:
    """A module by its name, or, as Python runs a script, a file with its folder."""
    if "/" not in module and not module.endswith(".py"):
        import_module(module)
        return
    path = Path(module).resolve()
    if path.suffix != ".py" or not path.is_file():
        raise ValueError("must be a module's name or a file that ends in .py")
    known = sys.modules.get(path.stem)
    if known is not None and getattr(known, "__file__", None) != str(path):
        raise ValueError(f"there is another module called {path.stem}: give the file another name")
    sys.path.insert(0, str(path.parent))
    import_module(path.stem)
