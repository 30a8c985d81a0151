"""Run a tutorial, and compare what it prints with what its page says."""

import re
import runpy
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run(script, *arguments):
    command = [sys.executable, str(ROOT / "tutorials" / script), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=900)


def run_here(monkeypatch, script, *arguments):
    """Run it in this process, which has imported TVM and may have a server that forks workers."""
    monkeypatch.setattr(sys, "argv", [script, *map(str, arguments)])
    runpy.run_path(str(ROOT / "tutorials" / script), run_name="__main__")


def recorded_output(script):
    """The lines that a tutorial prints, according to its last section."""
    *_, section = (ROOT / "tutorials" / script).read_text().split("# What it prints\n")
    return [
        line.removeprefix("#").strip() for line in section.splitlines() if line.startswith("#  ")
    ]


def outline(lines):
    """The first word of each line; numbers and paths differ from run to run.

    Whether an operator without a roofline bound takes so little time that the network has one is
    a matter of timings, too.
    """
    lines = [line for line in lines if not line.startswith("at this machine's roofline bounds")]
    return [re.sub(r"\S*/\S*|\d+", "...", line.split()[0]) for line in lines]
