"""One version everywhere."""

import re
from pathlib import Path

from autotvm_opevo import __version__

ROOT = Path(__file__).parents[2]


def test_changelog_begins_with_this_version():
    assert (
        re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[1] == __version__
    )


def test_citation_names_this_version():
    assert (
        re.search(r"^version: (\S+)", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)[1]
        == __version__
    )
