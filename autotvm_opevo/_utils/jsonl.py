"""Files with one JSON value a line, which a power cut may tear and other tools may write: logs, databases, journals, results."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any


class Malformed:
    """What a line that holds no JSON is read as."""


MALFORMED = Malformed()


def load(line: bytes | str) -> Any:
    """The JSON value of a line, or `MALFORMED`.

    >>> load(b'[1, 2]'), load('{"torn": ') is MALFORMED, load(b"\\xff") is MALFORMED
    ([1, 2], True, True)
    """
    try:
        return json.loads(line)
    except (RecursionError, ValueError):
        return MALFORMED


def read(lines: Iterable[bytes]) -> Iterator[tuple[bytes, Any]]:
    """Every line with its value, `MALFORMED` where it holds none; blank lines and comments are skipped.

    >>> [value for _, value in read([b"# head", b"", b"1", b"[2", b"3"])] == [1, MALFORMED, 3]
    True
    """
    for line in lines:
        if line.strip() and not line.startswith(b"#"):
            yield line, load(line)


def append(path: Path, *values: Any) -> None:
    """Add values, one a line, on lines of their own also where the last one was torn.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "results.jsonl"
    ...     _ = path.write_text('{"a": 1}\\n{"b"')
    ...     append(path, {"c": 3})
    ...     [value for _, value in read(path.read_bytes().splitlines()) if value is not MALFORMED]
    [{'a': 1}, {'c': 3}]
    """
    with open(path, "a") as file:
        file.write("\n" * is_torn(path) + "".join(json.dumps(value) + "\n" for value in values))


def is_torn(path: Path) -> bool:
    """Whether the last line of a file has no end: it is being written, or was cut off."""
    with open(path, "rb") as file:
        if file.seek(0, 2) == 0:
            return False
        file.seek(-1, 2)
        return file.read() != b"\n"
