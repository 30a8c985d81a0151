"""Files with one JSON value per line."""

import os

import pytest

from autotvm_opevo._utils import jsonl


@pytest.mark.parametrize(
    "line",
    [
        b"[1, 2",
        b"no JSON",
        b"\x00",
        b"\xff",
        b"[" * 200_000,
        b"",
        "{'a': 1}",
        "[1]".encode("utf-16"),
    ],
)
def test_a_line_that_cannot_be_parsed_is_malformed(line):
    assert jsonl.load(line) is jsonl.MALFORMED


@pytest.mark.parametrize(
    ("line", "value"),
    [
        (b"null\n", None),
        ("[1]", [1]),
        ('{"ü": 1e3}'.encode(), {"ü": 1000.0}),
        (b'"\\ud800"', "\ud800"),
        ("[1]".encode("utf-8-sig"), [1]),  # the first line of a file from Windows
    ],
)
def test_a_line_is_parsed(line, value):
    assert jsonl.load(line) == value


def test_reading_skips_blank_lines_and_comments():
    lines = [b"# head\n", b"\n", b"  \n", b"1\n", b"[2\n", b"null"]
    assert list(jsonl.read(lines)) == [(b"1\n", 1), (b"[2\n", jsonl.MALFORMED), (b"null", None)]


@pytest.mark.parametrize(
    ("content", "torn"),
    [(b"", False), (b"1\n", False), (b"\n", False), (b"1", True), (b"1\n[2", True), (b"1\r", True)],
)
def test_a_file_is_torn_if_its_last_line_has_no_newline(tmp_path, content, torn):
    path = tmp_path / "log.jsonl"
    path.write_bytes(content)
    assert jsonl.is_torn(path) == torn


@pytest.mark.parametrize("content", ["", "1\n", "[1, ", "1"])
def test_appended_values_have_lines_of_their_own(tmp_path, content):
    path = tmp_path / "log.jsonl"
    path.write_text(content)
    jsonl.append(path, {"a": 2}, [3])
    assert path.read_text().endswith('{"a": 2}\n[3]\n')
    assert [value for _, value in jsonl.read(path.read_bytes().splitlines())][-2:] == [
        {"a": 2},
        [3],
    ]
    assert path.read_text().startswith(content)
    assert not jsonl.is_torn(path)


def test_appending_creates_the_file(tmp_path):
    jsonl.append(tmp_path / "log.jsonl", 1)
    jsonl.append(tmp_path / "log.jsonl", 2)
    assert (tmp_path / "log.jsonl").read_text() == "1\n2\n"


def test_a_value_that_is_not_serializable_leaves_the_file_unchanged(tmp_path):
    with pytest.raises(TypeError):
        jsonl.append(tmp_path / "log.jsonl", 1, object())
    assert not os.path.exists(tmp_path / "log.jsonl")
