"""Write benchmark results into docs/results.md: its tables are never edited by hand."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

DOCUMENT = Path(__file__).parents[1] / "docs" / "results.md"


def publish(section: str, text: str, name: str, arguments: Sequence[str] | None, pictures: Path | None = None) -> None:
    """Replace a section's text and pictures; the text starts with the command ``python -m benchmarks.NAME ARGUMENTS``.

    Raises
    ------
    ValueError
        If the document has no such section.
    """
    begin, end = f"<!-- {section} -->", f"<!-- end of {section} -->"
    before, found, rest = DOCUMENT.read_text().partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"{DOCUMENT} has no section {section}: add {begin} and {end} where its text belongs")
    command = f"python -m benchmarks.{name} {shlex.join(sys.argv[1:] if arguments is None else arguments)}"
    links = ""
    if pictures:
        folder = DOCUMENT.parent / "results" / section
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(pictures, folder)
        links = "".join(f"\n![{path.stem}](results/{section}/{path.name})" for path in sorted(folder.iterdir()))
    DOCUMENT.write_text(f"{before}{begin}\n`{command}`\n\n{text.strip()}\n{links}\n{end}{after}")
