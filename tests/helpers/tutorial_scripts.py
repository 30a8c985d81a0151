"""Run a tutorial, and compare what it prints with what its page says."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run(script, *arguments):
    """Run a tutorial with this Python; its environment finds the package of this repository."""
    command = [sys.executable, str(ROOT / "tutorials" / script), *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, capture_output=True, text=True, timeout=900, env=environment)


def recorded_output(script):
    """The lines that a tutorial prints, according to its last section."""
    *_, section = (ROOT / "tutorials" / script).read_text().split("# What it prints\n")
    return [line.removeprefix("#").strip() for line in section.splitlines() if line.startswith("#  ")]


def shape(lines):
    """The first word of each line; numbers and paths differ from run to run."""
    return [re.sub(r"\d+", "#", line.split()[0]) if "/" not in line.split()[0] else "/" for line in lines if line.split()]
