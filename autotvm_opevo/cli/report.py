"""The ``report`` command: the verdict on tuning runs, and a page about them."""

from __future__ import annotations

import argparse

from autotvm_opevo._utils.timeouts import say_if_long

SUMMARY = "print a verdict on tuning runs, or write a page about them"
DESCRIPTION = """Print the verdict on tuning runs, or write a page about them.

The page is one self-contained HTML file, for screen and print. Logs are never modified."""
EXAMPLES = """examples:
  %(prog)s alexnet.json                         the verdict on a log, as text
  %(prog)s alexnet.json -o report.html          an AutoTVM log, written by any tuner
  %(prog)s opevo.json xgb.json -o report.html   two logs on one page
  %(prog)s alexnet -o report.html               the folder of a database, or of AutoTVM logs
  %(prog)s alexnet.json --watch                 follow a run in the browser
"""
STATUS = """exit status: 0 success; 1 a file could not be read or written; 2 invalid arguments, or
a file that is not a log."""


def add_arguments(report: argparse.ArgumentParser) -> None:
    """Add the command's arguments to its parser."""
    report.add_argument(
        "logs",
        nargs="+",
        metavar="LOG",
        help="AutoTVM log, folder of a MetaSchedule database, or folder of several",
    )
    report.add_argument(
        "-o",
        "--out",
        metavar="FILE",
        help="the HTML file to write (default: the verdict is printed)",
    )
    report.add_argument(
        "--title", default="", help="title of the page (default: the names of the logs)"
    )
    report.add_argument(
        "--watch",
        action="store_true",
        help="serve the page on 127.0.0.1 and update it while trials are added",
    )
    report.add_argument("--port", type=int, help="port for --watch (default: any free port)")


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit status."""
    if options.watch:
        if options.out:
            raise ValueError("--watch writes no file: run report again without it to write one")
    elif not options.out and options.title:
        raise ValueError("--title requires -o FILE, such as -o report.html, or --watch")
    elif options.port is not None:
        raise ValueError("--port requires --watch")
    if options.port is not None and not 0 <= options.port < 65_536:
        raise ValueError(f"--port must be from 0 to 65535, {options.port} given")
    if options.watch:
        from autotvm_opevo.reporting.serving import serve

        serve(options.logs, options.title, options.port or 0)
        return 0
    if options.out:
        with say_if_long("drawing the page"):
            from autotvm_opevo.reporting.page import report

            text = f"report: {report(*options.logs, out=options.out, title=options.title)}"
    else:
        with say_if_long("reading the logs"):
            from autotvm_opevo.reporting.summary import summarize

            text = summarize(*options.logs)
    print(text)
    return 0
