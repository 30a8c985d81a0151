"""The released description is the README without the links that only work in the repository."""

import re
import runpy
from pathlib import Path

import pytest
import setuptools

ROOT = Path(__file__).parents[2]
# Markdown's inline links and images, its reference definitions, and HTML's attributes.
LINKS = r"\]\(([^()\s]+)\)|^\[[^\]]+\]:\s*(\S+)|\b(?:src|srcset|href)=[\"']?([^\"'\s>]+)"


def links(markdown):
    text = re.sub(r"^```.*?^```", "", markdown, flags=re.MULTILINE | re.DOTALL)
    return ["".join(groups) for groups in re.findall(LINKS, text, re.MULTILINE)]


def relative(targets):
    return [target for target in targets if not re.match("[a-z]+:", target)]


@pytest.fixture
def setup_script(monkeypatch):
    """The namespace of setup.py after a run, with the options that it passed to `setup`."""
    options = {}
    monkeypatch.setattr(setuptools, "setup", options.update)
    return {**runpy.run_path(str(ROOT / "setup.py")), "options": options}


def test_the_released_description_has_no_relative_links(setup_script):
    description = setup_script["options"]["long_description"]
    assert description.startswith("# autotvm_opevo")
    assert not relative(links(description))


@pytest.mark.parametrize(
    ("markdown", "released"),
    [
        ("see [the results](docs/results.md#cpu).", "see the results."),
        ("see [`gp.py`](autotvm_opevo/search/gp.py)", "see `gp.py`"),
        ("![figure](docs/a.png)", ""),
        ("[![figure](docs/a.png)](docs/a.md)", ""),
        ("[below](#below)", "below"),
        ("[paper](https://arxiv.org/abs/2006.05664)", "[paper](https://arxiv.org/abs/2006.05664)"),
        ("![badge](https://example.org/a.svg)", "![badge](https://example.org/a.svg)"),
        ("```python\ntasks[0](x)\n```", "```python\ntasks[0](x)\n```"),
    ],
)
def test_only_relative_links_are_removed(setup_script, markdown, released):
    assert setup_script["without_relative_links"](markdown) == released
