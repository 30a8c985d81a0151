"""The README, the changelog and the pages of docs: their width, their links and their options."""

import argparse
import re
from pathlib import Path

import numpy as np
import pytest

from autotvm_opevo.cli.main import _parser

ROOT = Path(__file__).parents[2]
# Not the generated ones.
PAGES = [
    page
    for page in [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*"))]
    if page.suffix in (".md", ".rst")
    and not {"_build", "tutorials"} & {*page.relative_to(ROOT).parts}
]
MARKDOWN = [page for page in PAGES if page.suffix == ".md"]
# Commands write wide tables.
WRAPPED = [page for page in PAGES if page.parent.name != "tables"]
RESULTS = [page for page in WRAPPED if page.parent.name == "results"]
COMMANDS = ("tune", "compare", "report", "doctor")


def name(page):
    return page.relative_to(ROOT).as_posix()


def prose(page):
    return re.sub(r"^( *)```.*?^\1```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)


def anchors(page):
    """Of a page's headings, as GitHub and the documentation make them."""
    titles = re.findall(r"^#+ (.*)$", prose(page), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def sentence_lengths(page):
    """Words of each sentence in paragraphs and lists, without tables, headings and commands."""
    lines = re.sub(r"^(#|\||    |<!--|!\[|\[\w+\]:).*", "", prose(page), flags=re.MULTILINE)
    text = re.sub(r"\]\(\S*\)", "]", lines)
    paragraphs = re.split(r"\n\s*\n|\n *(?:[-*]|\d\.) ", text)
    sentences = [
        sentence
        for paragraph in paragraphs
        for sentence in re.split(r"(?<=[.?:])\W* (?=[A-Z`*\[])", " ".join(paragraph.split()))
    ]
    return [len(sentence.split()) for sentence in sentences if sentence]


@pytest.mark.parametrize("page", WRAPPED, ids=name)
def test_no_line_is_longer_than_100_characters(page):
    assert [line for line in page.read_text().splitlines() if len(line) > 100] == []


@pytest.mark.parametrize("page", [page for page in WRAPPED if page in MARKDOWN], ids=name)
def test_sentences_are_short(page):
    assert np.mean(sentence_lengths(page)) < 16


def test_the_readme_is_short():
    lines = (ROOT / "README.md").read_text().splitlines()
    assert len(lines) <= 85
    assert len(re.findall(r"[\d.]*\d", "\n".join(lines[:40]))) <= 12


@pytest.mark.parametrize("page", RESULTS, ids=name)
def test_a_page_of_results_has_one_table_and_ten_bullets(page):
    text = prose(page)
    assert len(re.findall(r"^\|[-|]+\|$", text, flags=re.MULTILINE)) <= 1
    assert len(re.findall(r"^ *- ", text, flags=re.MULTILINE)) <= 10


@pytest.mark.parametrize("page", MARKDOWN, ids=name)
def test_links_lead_to_files_and_headings(page):
    broken = []
    for target in re.findall(r"\]\(([^()\s]+)\)", prose(page)):
        if re.match("[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or (anchor and anchor not in anchors(file)):
            broken.append(target)
    assert broken == []


@pytest.mark.parametrize("command", COMMANDS)
def test_the_reference_has_every_option(command):
    text = (ROOT / "docs" / "reference" / "command_line.md").read_text()
    subparsers = next(
        action
        for action in _parser([command])._actions
        if isinstance(action, argparse._SubParsersAction)
    )
    actions = subparsers.choices[command]._actions
    options = {option for action in actions for option in action.option_strings} - {"-h"}
    assert {option for option in options if f"`{option}" not in text} == set()
