"""Write benchmark results into the pages of docs/results: their tables are never edited by hand."""

from __future__ import annotations

import shlex
import shutil
import sys
from argparse import ArgumentTypeError
from collections.abc import Sequence
from pathlib import Path

PAGES = Path(__file__).parents[1] / "docs" / "results"


def section(name: str) -> str:
    """The argument of ``--publish``, refused before anything is measured if no page has such a
    section.
    """
    try:
        _find(name)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from None
    return name


def _find(section: str) -> tuple[Path, str, str]:
    """The page of a section, and its text before and after it."""
    begin, end = f"<!-- {section} -->", f"<!-- end of {section} -->"
    for page in PAGES.glob("*.md"):
        before, found, rest = page.read_text().partition(begin)
        _, closed, after = rest.partition(end)
        if found and closed:
            return page, before + begin, end + after
    raise ValueError(
        f"{PAGES} has no section {section}: add {begin} and {end} to the page where its text "
        "belongs"
    )


def publish(
    section: str,
    text: str,
    name: str,
    arguments: Sequence[str] | None,
    pictures: Path | None = None,
) -> None:
    """Replace a section's text and pictures; the text starts with the command ``python -m
    benchmarks.NAME ARGUMENTS``.

    Raises
    ------
    ValueError
        If no page has such a section.
    """
    page, before, after = _find(section)
    command = (
        f"python -m benchmarks.{name} "
        f"{shlex.join(sys.argv[1:] if arguments is None else arguments)}"
    )
    links = ""
    if pictures:
        shutil.rmtree(PAGES / section, ignore_errors=True)
        shutil.copytree(pictures, PAGES / section)
        links = "".join(
            f"\n![{path.stem}]({section}/{path.name})"
            for path in sorted((PAGES / section).iterdir())
        )
    page.write_text(f"{before}\n`{command}`\n\n{text.strip()}\n{links}\n{after}")
