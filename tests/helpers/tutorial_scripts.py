"""Run a tutorial, and compare what it prints with what its page says."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run(script, *arguments):
    command = [sys.executable, str(ROOT / "tutorials" / script), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=900)


def recorded_output(script):
    """The lines that a tutorial prints, according to its last section."""
    *_, section = (ROOT / "tutorials" / script).read_text().split("# What it prints\n")
    return [line.removeprefix("#").strip() for line in section.splitlines() if line.startswith("#  ")]


def outline(lines):
    """The first word of each line; numbers, paths, and whether an operator stays untuned differ from run to run."""
    lines = [line for line in lines if "left untuned" not in line]
    return [re.sub(r"\S*/\S*|\d+", "...", line.split()[0]) for line in lines]
