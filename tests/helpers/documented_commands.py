"""The shell commands on the pages, and a way to check their options without running them."""

import argparse
import re
import runpy
import shlex
import sys
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[2]
# Tables have the commands of the versions that wrote them.
PAGES = [
    page
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    if page.parent.name != "tables"
]
_COMMAND = r"^    ((?:\w+=\S+ |time )*(?:\.venv/\w+/bin/)?(?:python|pip|make) .*)$"


def commands():
    """All that are in blocks of their own, once each; not those that stand for others."""
    found = []
    for page in PAGES:
        text = re.sub(r"\\\n\s*", "", page.read_text())
        for line in re.findall(_COMMAND, text, flags=re.MULTILINE):
            found += shlex.join(shlex.split(line, comments=True)).split(" '&&' ")
    return [command for command in dict.fromkeys(found) if not re.search(r" \.\.\.|\[LOG", command)]


def module(command):
    """The module that a command runs, and its arguments; None if it runs no module."""
    _, separator, rest = command.partition(" -m ")
    name, *arguments = shlex.split(rest) if separator else [None]
    return name, arguments


class Parsed(Exception):
    """The options are valid, and nothing was run."""


def parse(name, arguments, monkeypatch):
    """Run a module until it has parsed its options; exits with status 2 if they are not valid."""
    parse_args = argparse.ArgumentParser.parse_args

    def stop(parser, *given):
        parse_args(parser, *given)
        raise Parsed

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", stop)
    monkeypatch.setattr(sys, "argv", [name, *arguments])
    try:
        # not `run_module`, which fails for modules that pytest itself has imported
        spec = find_spec(name)
        if spec.submodule_search_locations:
            spec = find_spec(f"{name}.__main__")
        runpy.run_path(spec.origin, run_name="__main__")
    except Parsed:
        return
    raise AssertionError(f"{name} parsed no options")
