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


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit status."""
    if options.title and not options.out:
        raise ValueError("--title requires -o FILE, such as -o report.html")
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
