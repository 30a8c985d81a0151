"""Watchdog process that kills the orphans of a tuning run which was itself killed.

    python watchdog.py MARK

AutoTVM's workers exit with their parent, but the tracker and the server of a ``LocalRunner`` do not: they would keep their ports
and output streams open forever. All of them inherit the mark in their environment. This file runs as a script, so that it starts
without importing TVM. It exits without killing anything when it reads a line from its standard input; when that is closed or the
parent is gone, it kills the marked processes first.
"""

from __future__ import annotations

import os
import select
import sys

import psutil

SCRIPT = __file__
VARIABLE = "AUTOTVM_OPEVO_RUN"


def main(mark: str) -> None:
    """Wait until the parent sends a line or dies."""
    parent = os.getppid()
    while os.getppid() == parent:
        if select.select([sys.stdin], [], [], 1.0)[0]:
            if sys.stdin.readline():
                return
            break  # the pipe is closed
    kill_marked(mark)


def kill_marked(mark: str) -> None:
    """Kill AutoTVM's processes that carry the mark."""
    for process in psutil.process_iter():
        try:
            if process.environ().get(VARIABLE) == mark and "tvm.exec.popen_worker" in process.cmdline():
                process.kill()
        except psutil.Error:  # it has exited, or belongs to another user
            continue


if __name__ == "__main__":
    main(sys.argv[1])
