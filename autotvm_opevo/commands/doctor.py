"""``doctor``: what of this machine can tune, and what is missing."""

from __future__ import annotations

import argparse
from typing import Any

from autotvm_opevo.commands import command

_EXAMPLES = """examples:
  python -m autotvm_opevo doctor

Say what of this machine can tune: which TVM there is, which adapters work with it, compilers, devices, and what is missing.
"""
_STATUS = "exit status: 0 when at least one adapter works, 1 when none does."


def add(commands: Any) -> None:
    """Add the command to a parser's."""
    command(commands, "doctor", "what of this machine can tune, and what is missing", _EXAMPLES, _STATUS, _run)


def _run(_: argparse.Namespace) -> int:
    from autotvm_opevo.doctor import examine

    findings, works = examine()
    print(*findings, sep="\n")
    return 0 if works else 1
