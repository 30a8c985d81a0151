"""The metadata is in setup.cfg, except for the description: the README without links that only work
inside the repository.
"""

import re
from pathlib import Path

from setuptools import setup

# A link target without a scheme: a path in the repository, or a heading on the page.
RELATIVE = r"\((?![a-z]+:)[^()\s]*\)"


def without_relative_links(markdown):
    """Remove images in the repository, also linked ones, and keep only the text of links into it;
    code blocks stay.
    """
    parts = re.split(r"(^```.*?^```)", markdown, flags=re.MULTILINE | re.DOTALL)
    for i in range(0, len(parts), 2):
        parts[i] = re.sub(rf"!\[[^\]]*\]{RELATIVE}", "", parts[i])
        parts[i] = re.sub(rf"\[([^\[\]]*)\]{RELATIVE}", r"\1", parts[i])
    return "".join(parts)


setup(
    long_description=without_relative_links(
        Path(__file__).with_name("README.md").read_text(encoding="utf-8")
    )
)
