"""Results as lines of JSON: whoever was stopped goes on from what is there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def read(file: Path) -> list[dict[str, Any]]:
    """All whole lines; a torn one is left out."""
    found = []
    for line in file.read_text().splitlines() if file.exists() else ():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


def append(file: Path, result: dict[str, Any]) -> None:
    """One more line, also after a torn one."""
    torn = file.exists() and not file.read_bytes().endswith(b"\n") and file.stat().st_size > 0
    with open(file, "a") as lines:
        lines.write("\n" * torn + json.dumps(result) + "\n")
