"""Print benchmark results, and write them into docs/results, where tables with a command are never
edited by hand.

The results of a section are a file of their own, ``tables/SECTION.md``, to which some page links.
A page with the markers ``<!-- SECTION -->`` and ``<!-- end of SECTION -->`` has a summary of them
in between.
"""

from __future__ import annotations

import shlex
import sys
import textwrap
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Sequence
from pathlib import Path

PAGES = Path(__file__).parents[1] / "docs" / "results"
# Of paragraphs; tables have lines of their own length.
_WIDTH = 100


def add_option(parser: ArgumentParser) -> None:
    """Add ``--publish``, whose section is refused before anything is measured if no page links to
    it.
    """
    parser.add_argument(
        "--publish",
        type=_section,
        metavar="SECTION",
        help="write the results to this section of docs/results",
    )


def _section(name: str) -> str:
    link = f"(tables/{name}.md)"
    if not any(link in page.read_text() for page in PAGES.glob("*.md")):
        raise ArgumentTypeError(
            f"no page in {PAGES} links to the section {name}: add a link {link} to the page where "
            "its results are told"
        )
    return name


def publish(
    section: str | None,
    text: str,
    name: str,
    arguments: Sequence[str] | None,
    summary: str | None = None,
) -> None:
    """Print a text. Given a section, also write it there, and its summary into the page that has
    the section's markers; both start with the command ``python -m benchmarks.NAME ARGUMENTS``.

    Parameters
    ----------
    section : str, optional
        Its name.
    text : str
        Markdown; lines of tables may be of any length.
    name : str
        Of the benchmark's module, followed by its own arguments.
    arguments : sequence of str, optional
        The command line; by default that of the process.
    summary : str, optional
        Markdown for the page; by default the text.
    """
    print(text)
    if section is None:
        return
    command = _command(name, sys.argv[1:] if arguments is None else arguments)
    tables = PAGES / "tables"
    tables.mkdir(exist_ok=True)
    # an orphan is in no table of contents
    (tables / f"{section}.md").write_text(
        f"---\norphan: true\n---\n\n# {section}\n\n{command}\n\n{_wrap(text.strip())}\n"
    )
    begin, end = f"<!-- {section} -->", f"<!-- end of {section} -->"
    for page in PAGES.glob("*.md"):
        before, _, rest = page.read_text().partition(begin)
        _, closed, after = rest.partition(end)
        if closed:
            body = _wrap((text if summary is None else summary).strip())
            page.write_text(f"{before}{begin}\n\n{command}\n\n{body}\n\n{end}{after}")


def _command(name: str, arguments: Sequence[str]) -> str:
    """The command as an indented block, whose lines end before an option or between values."""
    words = [f"benchmarks.{name}", *map(shlex.quote, arguments)]
    lines = ["    python -m"]
    for word, value in zip(words, [*words[1:], ""]):
        together = f"{word} {value}" if word.startswith("--") else word
        if len(f"{lines[-1]} {together} \\") > _WIDTH:
            lines[-1] += " \\"
            lines.append(" " * 7)
        lines[-1] += f" {word}"
    return "\n".join(lines)


def _wrap(text: str) -> str:
    """Fill the paragraphs; tables stay as they are."""
    return "\n\n".join(
        part
        if part.startswith("|")
        else textwrap.fill(part, _WIDTH, break_long_words=False, break_on_hyphens=False)
        for part in text.split("\n\n")
    )
