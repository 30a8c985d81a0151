"""The process that starts workers: imports TVM, then forks on request. See `workers`."""

from __future__ import annotations

import importlib
import os
import pickle
import signal
import socket
import sys
import traceback
from collections.abc import Collection
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from typing import Any

import cloudpickle

# Seconds between looks at which children have ended.
_REAP_INTERVAL = 1.0


def main(cpus: Collection[int]) -> None:
    """Import a module, fork for each request on a socket, and kill all children at the end; all on
    these CPUs, or on those of the parent if none are known.
    """
    # A job scheduler signals all processes of a job. Builds that end by it would count as failures,
    # while the parent, which ends these processes, keeps its results. Compilers inherit this.
    for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(one, signal.SIG_IGN)
    *_, module, descriptor = sys.argv
    if cpus:
        with suppress(OSError):  # they are not this process's any more
            os.sched_setaffinity(0, cpus)
    importlib.import_module(module)
    children: set[int] = set()
    try:
        with socket.socket(fileno=int(descriptor)) as control:
            while True:
                if wait([control], _REAP_INTERVAL if children else None):
                    request, descriptors, _, _ = socket.recv_fds(control, 1, 1)
                    if not request:
                        return
                    _fork(control, descriptors, children)
                with suppress(ChildProcessError):
                    while (ended := os.waitpid(-1, os.WNOHANG)[0]) != 0:
                        children.discard(ended)
    finally:
        for pid in children:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)


def _fork(control: socket.socket, descriptors: list[int], children: set[int]) -> None:
    """Start a worker on the other end of a connection; without one, the connection is closed."""
    try:
        pid = os.fork()
        if pid == 0:
            control.close()
            _become_worker(descriptors[0])
        children.add(pid)
        with suppress(OSError):
            os.setpgid(pid, pid)  # by both, so that it is done when either goes on
    except OSError:
        traceback.print_exc()
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _become_worker(descriptor: int) -> None:
    """Call what is asked for until the connection is closed; never returns."""
    try:
        os.setpgid(0, 0)
        os.set_inheritable(descriptor, False)
        connection = Connection(descriptor)
        connection.send_bytes(pickle.dumps(os.getpid()))
        environment, folder, path = pickle.loads(connection.recv_bytes())
        os.environ.clear()
        os.environ.update(environment)
        os.chdir(folder)
        sys.path[:] = path
        while True:
            connection.send_bytes(_answer(connection.recv_bytes()))
    except (EOFError, ConnectionError):
        pass
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):
                stream.flush()
        os._exit(0)


def _answer(message: bytes) -> bytes:
    """Whether the call failed, and its result or its exception, pickled."""
    answer: tuple[bool, Any]
    try:
        function, arguments = pickle.loads(message)
        answer = False, function(*arguments)
    except Exception as error:
        answer = True, error
    try:
        return bytes(cloudpickle.dumps(answer))
    except Exception as error:
        why = f"{type(error).__name__}: {error}; cannot send {answer[1]!r}"
        return pickle.dumps((True, RuntimeError(why)))
