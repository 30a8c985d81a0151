"""Files with one JSON value per line, some of them torn or written by other tools."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

# The value of a line that is not valid JSON; no JSON value is this object.
MALFORMED: Any = object()


def load(line: bytes | str) -> Any:
    """Parse one line, of bytes in UTF-8, or return `MALFORMED`.

    >>> load(b'[1, 2]'), load('{"torn": ') is MALFORMED, load(b"\\xff") is MALFORMED
    ([1, 2], True, True)
    """
    try:
        # json.loads would take the first line of a file in UTF-16 for its only one
        return json.loads(line.decode("utf-8-sig") if isinstance(line, bytes) else line)
    except (RecursionError, ValueError):
        return MALFORMED


def read(lines: Iterable[bytes]) -> Iterator[tuple[bytes, Any]]:
    """Iterate over lines and their values, `MALFORMED` where a line cannot be parsed; skip blank
    lines and ``#`` comments.

    >>> [value for _, value in read([b"# head", b"", b"1", b"[2", b"3"])] == [1, MALFORMED, 3]
    True
    """
    for line in lines:
        if line.strip() and not line.startswith(b"#"):
            yield line, load(line)


def append(path: Path, *values: Any) -> None:
    """Append values, one per line. A torn last line is terminated first, so it cannot corrupt the
    new ones. The file is unchanged if a value is not serializable.
    """
    text = "".join(json.dumps(value) + "\n" for value in values)
    with open(path, "a") as file:
        file.write("\n" * is_torn(path) + text)


def is_torn(path: Path) -> bool:
    """Whether the last line has no newline: it is still being written, or was cut off."""
    with open(path, "rb") as file:
        if file.seek(0, os.SEEK_END) == 0:
            return False
        file.seek(-1, os.SEEK_END)
        return file.read() != b"\n"
