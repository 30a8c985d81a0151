"""A process that outlives a tuning run which was killed, for the second that it takes to end what that run has left behind.

    python guardian.py MARK

AutoTVM's workers end with their parent, but the tracker and the server of a ``LocalRunner`` do not: they keep their ports, and
whatever output they had, for ever. All of them inherit the mark in their environment. Run as a script, so that it starts without
TVM; it ends when its input does, after killing, or when it reads a line, without.
"""

from __future__ import annotations

import os
import select
import sys

import psutil

VARIABLE = "AUTOTVM_OPEVO_RUN"


def main(mark: str) -> None:
    """Wait for the parent's word or death."""
    parent = os.getppid()
    while os.getppid() == parent:
        if select.select([sys.stdin], [], [], 1.0)[0]:
            if sys.stdin.readline():
                return
            break  # the pipe is closed
    end_marked(mark)


def end_marked(mark: str) -> None:
    """Kill AutoTVM's processes that have the mark."""
    for process in psutil.process_iter():
        try:
            if process.environ().get(VARIABLE) == mark and "tvm.exec.popen_worker" in process.cmdline():
                process.kill()
        except psutil.Error:  # gone, or another user's
            continue


if __name__ == "__main__":
    main(sys.argv[1])
